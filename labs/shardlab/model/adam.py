"""Adam as data: three float32 vectors (12 bytes per weight) and a step count, and the update that changes them.

Kingma and Ba, "Adam: A Method for Stochastic Optimization", 1412.6980, algorithm 1.
"""

import torch


def new_state(weights: torch.Tensor) -> dict:
    """The state for some weights: `master` (a float32 copy), `momentum`, `variance` (zeros of that shape), `step` 0."""
    zeros = torch.zeros_like(weights, dtype=torch.float32)
    return {"master": weights.detach().float().clone(), "momentum": zeros, "variance": zeros.clone(), "step": 0}


@torch.no_grad()
def update(state: dict, gradient: torch.Tensor, *, lr=1e-3, betas=(0.9, 0.999), eps=1e-8) -> None:
    """One step of Adam; overwrites `master`, `momentum` (m), `variance` (v) and `step` (t) of the state.

    gradient: the shape of `master`. Raises ValueError for another shape: a shard's state needs the shard's gradient.
    """
    if gradient.shape != state["master"].shape:
        raise ValueError(f"a gradient of shape {list(gradient.shape)} for a state of {list(state['master'].shape)}")
    gradient = gradient.float()
    state["step"] += 1
    state["momentum"].lerp_(gradient, 1 - betas[0])  # m = b1 m + (1 - b1) g
    state["variance"].mul_(betas[1]).addcmul_(gradient, gradient, value=1 - betas[1])
    spread = (state["variance"] / (1 - betas[1] ** state["step"])).sqrt_().add_(eps)
    state["master"].addcdiv_(state["momentum"], spread, value=-lr / (1 - betas[0] ** state["step"]))
