"""Learners of one head that ask: they choose the tokens and see outputs without noise, nothing else."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["learn_from_one", "learn_from_pairs", "learn_from_scalars"]


def learn_from_scalars(answer: Callable[..., float], dim: int, sign: int) -> tuple[Any, Any]:
    """The v and Theta of f(X) = v . (last row of softmax(X Theta X^T) X)."""
    unit = np.eye(dim)
    v = np.array([answer(one) for one in unit])
    largest = int(np.argmax(np.abs(v)))
    # a basis off the kernel of v: e_j where v_j is large enough to see, else e_j plus a coordinate that is
    off = np.array([one if abs(v @ one) > 0.1 * abs(v[largest]) else one + unit[largest] for one in unit])
    logits = np.zeros((dim, dim))
    for i, j in np.ndindex(dim, dim):
        # the answer is v.x - q v.z with q the weight of the first token, whose logit is lower by x Theta z
        x, z = unit[i], off[j]
        q = (v @ x - answer(x - z, x)) / (v @ z)
        logits[i, j] = sign * math.log((1 - q) / q)
    return v, np.linalg.solve(off, logits.T).T


def learn_from_pairs(answer: Callable[[Any], Any], dim: int) -> tuple[Any, Any]:
    """W and Theta of one head, two tokens at a time."""
    unit, theta = np.eye(dim), np.zeros((dim, dim))
    w = np.vstack([answer(one[None]) for one in unit])
    back = np.linalg.inv(w)
    for i in range(dim):  # beside the token 0, whose logit is 0
        p = (answer(np.array([unit[i], 0 * unit[i]]))[0] @ back)[i]
        theta[i, i] = math.log(p / (1 - p))
    for i in range(dim):
        for j in range(i):
            p = answer(unit[[i, j]]) @ back
            theta[i, j] = theta[i, i] - math.log(p[0, i] / p[0, j])
            theta[j, i] = theta[j, j] - math.log(p[1, j] / p[1, i])
    return w, theta


def learn_from_one(answer: Callable[[Any], Any], dim: int) -> tuple[Any, Any]:
    """W from single tokens, Theta from 0 and all unit vectors at once."""
    w = np.vstack([answer(one[None]) for one in np.eye(dim)])
    p = answer(np.vstack([np.zeros(dim), np.eye(dim)]))[1:] @ np.linalg.inv(w)
    return w, np.log(p / (1 - p.sum(axis=1, keepdims=True)))
