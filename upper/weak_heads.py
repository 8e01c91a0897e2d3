"""What each head of a student is worth, and another chance for the one that is worth least."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from attention import AttentionLayer
from upper.descents import Descents, Ends, SplitExamples
from upper.newton.gauss_newton import Iterate
from upper.stacked import read_tokens
from upper.verdict import at_noise_level, fitted_share

__all__ = ["cost_of_each_head", "redraw_weakest"]

# Off the residual: less is what another minimum at the level of the noise may have.
_BETTER = 0.9


def cost_of_each_head(
    x: Float[np.ndarray, "n k d"], theta: Float[np.ndarray, "m d d"], w: Float[np.ndarray, "m d d"]
) -> Float[np.ndarray, " m"]:
    """By how much the squared residual grows when a head is dropped and the other projections are refitted.

    Parameters
    ----------
    x : array (n, k, d)
        The examples fitted.
    theta, w : array (m, d, d)
        A layer whose projections are a least-squares fit.

    Returns
    -------
    array (m,)
        In the units of the squared labels.

    Raises
    ------
    ValueError
        If the shapes do not fit together.

    Notes
    -----
    With Z = [P_1 X ... P_m X] and H = (Z^T Z)^-1 it is tr(W_i^T (H_ii)^-1 W_i): what the head's outputs have that no
    combination of the other heads' reads has. Zero for W_i = 0, and for Theta_i = Theta_j. O(n k (m d)^2 + (m d)^3).

    References
    ----------
    Derived here; the Wald statistic of linear regression.
    """
    m, d, _ = theta.shape
    _, read = read_tokens(x, theta)
    gram = read.T @ read
    # equal heads make it singular; with this ridge the cost of either is then zero up to rounding
    ridge = 1e-12 * np.trace(gram) / len(gram) or 1.0
    blocks = np.linalg.inv(gram + ridge * np.eye(len(gram))).reshape(m, d, m, d)
    each = np.stack([blocks[i, :, i, :] for i in range(m)])
    return np.einsum("iab,iab->i", w, np.linalg.solve(each, w))


def redraw_weakest(
    descents: Descents,
    examples: SplitExamples,
    ends: Ends,
    *,
    unknowns: int,
    work: int,
    tell: Callable[[int, Iterate], None],
) -> Ends:
    """The ends, where they are at a floor, after the cheapest head began anew on what the others leave, while it helps.

    Parameters
    ----------
    descents : Descents
        How to descend; starts are matrices.
    examples : SplitExamples
        The examples.
    ends : Ends
        Where starts have ended, at a level of the residual that looks like noise.
    unknowns : int
        How many numbers a fit determines.
    work : int
        Budget in passes, those of `ends` included; a trial once begun is finished.
    tell : callable
        Called with the number of the iterate, from 0, and the iterate.

    Notes
    -----
    A head a thousand times weaker than the others is not found from random starts, all of which fit the others first:
    their residuals then agree like those at the level of noise do. On what is left the weak head is all there is.
    At most m descents of O(n k m d (d + 2 k)) a pass.

    References
    ----------
    Derived here.
    """
    share = fitted_share(unknowns, examples.x)
    for _ in range(len(ends.best.theta) if len(ends.best.theta) > 1 else 0):
        if not ends.at_floor or ends.passes >= work:
            break
        theta, w = ends.best.theta, ends.best.w
        others = np.arange(len(theta)) != np.argmin(cost_of_each_head(examples.x, theta, w))
        left = examples.y - AttentionLayer(theta=theta[others], w=w[others])(examples.x)
        start = np.concatenate([theta[others], descents.start(replace(examples, y=left), 1, 0)])
        again = descents.one(examples, start, unknowns=unknowns, work=work - ends.passes, tell=tell)
        passes = ends.passes + again.passes
        if again.residual > _BETTER * ends.best.residual:
            return replace(ends, passes=passes)
        still = at_noise_level(again, examples.held_out, share=share)
        ends = Ends((again, *ends.iterates), passes, still)
    return ends
