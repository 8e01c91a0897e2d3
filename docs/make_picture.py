"""Make a picture of a page: ``python docs/make_picture.py PAGE.html OUT.png [--width W --height H]``."""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["BROWSERS", "QUIET", "main", "make_picture"]

BROWSERS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def make_picture(
    page: Path, out: Path, *, width: int = 1280, height: int = 1500, seconds: float = 60
) -> None:
    """Draw the top of a page, `width` by `height` pixels, into a PNG file with headless Chromium.

    Parameters
    ----------
    page, out : Path
        The HTML file and the PNG file to write.
    width, height : int
        Size of the window in pixels.
    seconds : float
        How long the browser may take.

    Raises
    ------
    ValueError
        If the page is missing, no browser is on the path, or the browser draws nothing.
    """
    if not page.is_file():
        raise ValueError(f"There is no page {page}: give the index.html that a comparison wrote.")
    if min(width, height) < 1:
        raise ValueError(f"The picture would be {width} by {height} pixels: at least 1 by 1 is needed.")
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        raise ValueError("No Chromium is on the path: install it, on Debian with apt-get install chromium.")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        drawn = Path(folder) / "picture.png"
        command = [
            browser,
            *QUIET,
            "--hide-scrollbars",
            "--force-color-profile=srgb",
            f"--user-data-dir={folder}/profile",
            f"--window-size={width},{height}",
            f"--screenshot={drawn}",
            page.resolve().as_uri(),
        ]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=seconds)
        except subprocess.TimeoutExpired:
            raise ValueError(f"{browser} drew nothing within {seconds:g} seconds.") from None
        except subprocess.CalledProcessError as error:
            last = (error.stderr.decode(errors="replace").strip().splitlines() or ["no message"])[-1]
            raise ValueError(f"{browser} ended with {error.returncode}: {last}") from None
        if not drawn.is_file():
            raise ValueError(f"{browser} ended without a picture.")
        shutil.copyfile(drawn, out)


def main() -> int:
    """Read the command line, make the picture, and say in one line what went wrong if anything did."""
    parser = argparse.ArgumentParser(description="Make a picture of a comparison's page.")
    parser.add_argument("page", type=Path, help="the index.html of a comparison")
    parser.add_argument("out", type=Path, help="the PNG file to write")
    parser.add_argument("--width", type=int, default=1280, help="pixels (default 1280)")
    parser.add_argument("--height", type=int, default=1500, help="pixels (default 1500)")
    chosen = parser.parse_args()
    try:
        make_picture(chosen.page, chosen.out, width=chosen.width, height=chosen.height)
    except (ValueError, OSError) as error:
        print(f"make_picture: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
