"""One executable check per claim of the papers; imports every package below it, holds no check yet."""
