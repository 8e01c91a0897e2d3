"""Optimizers of stacked parameters: momentum, Adam, Muon and SOAP, the last two on all heads at once."""

from typing import Any, Literal

import numpy as np

from attention._arrays import namespace

__all__ = ["Momentum", "Muon", "Optimizer", "OptimizerName", "Soap", "TorchAdam"]

OptimizerName = Literal["adam", "muon", "sgd", "soap"]

# the quintic of Newton and Schulz, and how often Muon applies it; in float32 as in bfloat16, where K. Jordan found it
_QUINTIC, _ROUNDS = (3.4445, -4.7750, 2.0315), 5
_SOAP_EVERY = 10  # steps between new eigenbases
_TINY = 1e-8


class Optimizer:
    """Updates [Theta, W] in place, Theta of shape (d, m d) and W of shape (m d, d)."""

    def step(self, gradients: list[Any], rate: float) -> None:
        """Take a step at this rate along the gradients in Theta and W."""
        raise NotImplementedError


class Momentum(Optimizer):
    """Nesterov's momentum, in the form of ``torch.optim.SGD``: v = mu v + g, then p -= rate (g + mu v)."""

    def __init__(self, parameters: list[Any], momentum: float) -> None:
        self._parameters, self._momentum = parameters, momentum
        self._velocity = [namespace(part).zeros_like(part) for part in parameters]

    def step(self, gradients: list[Any], rate: float) -> None:
        """Take a step."""
        for part, moving, gradient in zip(self._parameters, self._velocity, gradients, strict=True):
            moving *= self._momentum
            moving += gradient
            part -= rate * (gradient + self._momentum * moving)


class TorchAdam(Optimizer):
    """PyTorch's Adam in its fused form."""

    def __init__(self, parameters: list[Any], momentum: float, beta2: float) -> None:
        import torch

        self._parameters = parameters
        self._adam = torch.optim.Adam(parameters, lr=0.0, betas=(momentum, beta2), fused=True)

    def step(self, gradients: list[Any], rate: float) -> None:
        """Take a step."""
        for part, gradient in zip(self._parameters, gradients, strict=True):
            part.grad = gradient
        # the fused step takes the rate as a number at every step
        self._adam.param_groups[0]["lr"] = rate
        self._adam.step()


class _OfHeads(Optimizer):
    """An optimizer of the 2 m matrices Theta_i and W_i, as one array of shape (2 m, d, d)."""

    def __init__(self, parameters: list[Any]) -> None:
        self._parameters = parameters

    def step(self, gradients: list[Any], rate: float) -> None:
        """Take a step."""
        theta, w = self._parameters
        d = len(theta)
        of_theta, of_w = gradients[0].reshape(d, -1, d).swapaxes(0, 1), gradients[1].reshape(-1, d, d)
        direction = self._direction(namespace(theta).concat([of_theta, of_w]))
        of_theta, of_w = direction[: len(of_w)], direction[len(of_w) :]
        theta -= rate * of_theta.swapaxes(0, 1).reshape(theta.shape)
        w -= rate * of_w.reshape(w.shape)

    def _direction(self, gradient: Any) -> Any:
        raise NotImplementedError


class Muon(_OfHeads):
    """Momentum whose steps are made nearly orthogonal, every head for itself.

    Notes
    -----
    As ``torch.optim.Muon`` without weight decay, whose products are in bfloat16, matrix by matrix. On a CPU without
    bfloat16, ten to thirty times slower than here (measured).
    """

    def __init__(self, parameters: list[Any], momentum: float) -> None:
        super().__init__(parameters)
        self._momentum, self._mean = momentum, 0.0

    def _direction(self, gradient: Any) -> Any:
        mu = self._momentum
        self._mean = mu * self._mean + (1 - mu) * gradient
        return nearly_orthogonal((1 - mu) * gradient + mu * self._mean)


def nearly_orthogonal(matrices: Any) -> Any:
    """U S V^T with singular values S of about one, for each matrix U D V^T; smaller D remain smaller."""
    import torch

    a, b, c = _QUINTIC
    norms = torch.linalg.matrix_norm(matrices, keepdim=True)
    near = matrices / norms.clamp(min=1e-7)
    for _ in range(_ROUNDS):
        gram = near @ near.mT
        near = torch.baddbmm(near, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), near, beta=a)
    return near


class Soap(_OfHeads):
    """Adam in the eigenbases of Shampoo's two Gram matrices, of every head for itself.

    Notes
    -----
    As ``SOAP`` of the package pytorch-optimizer without weight decay. The first gradient only fixes the bases.
    """

    def __init__(self, parameters: list[Any], momentum: float, beta2: float) -> None:
        super().__init__(parameters)
        self._beta1, self._beta2 = momentum, beta2
        self._steps = 0
        self._mean: Any = 0.0
        self._squares: Any = 0.0

    def _direction(self, gradient: Any) -> Any:
        import torch

        grams = torch.stack([gradient @ gradient.mT, gradient.mT @ gradient])
        if self._steps == 0:
            self._grams = (1 - self._beta2) * grams
            finite = bool(torch.isfinite(grams).all())  # after a divergence, there are no bases
            self._bases = torch.linalg.eigh(self._grams)[1].flip(-1) if finite else torch.nan * grams
            self._steps = 1
            return torch.zeros_like(gradient)
        left, right = self._bases
        self._mean = self._beta1 * self._mean + (1 - self._beta1) * gradient
        self._squares = self._beta2 * self._squares + (1 - self._beta2) * (left.mT @ gradient @ right) ** 2
        unbiased = np.sqrt(1 - self._beta2**self._steps) / (1 - self._beta1**self._steps)
        inside = unbiased * (left.mT @ self._mean @ right) / (self._squares.sqrt() + _TINY)
        direction = left @ inside @ right.mT
        self._grams.lerp_(grams, 1 - self._beta2)
        if self._steps % _SOAP_EVERY == 0:
            self._turn()
        self._steps += 1
        return direction

    def _turn(self) -> None:
        """One power iteration of the bases; the squares follow the order of the eigenvalues."""
        import torch

        product = self._grams @ self._bases
        order = (self._bases * product).sum(-2).argsort(-1, descending=True)
        rows, columns = order
        self._squares = self._squares.take_along_dim(rows[:, :, None], 1).take_along_dim(
            columns[:, None, :], 2
        )
        self._bases = torch.linalg.qr(product.take_along_dim(order[:, :, None, :], -1))[0]
