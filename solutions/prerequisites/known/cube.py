# %% right_from_the_cube
"""Different: saves the output as well, and writes the slope as 3 y / x where it can."""

import torch


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x * x * x
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        slope = torch.where(x == 0, torch.zeros_like(x), 3 * y / torch.where(x == 0, torch.ones_like(x), x))
        return grad * slope


def cube_and_gradient(x, upstream):
    x = x.clone().requires_grad_()
    cube = Cube.apply(x)
    cube.backward(upstream)
    return cube.detach(), x.grad


# %% forgets_what_came
"""Wrong: returns the slope, and not the slope times the gradient of the output."""

import torch


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        context.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(context, gradient):
        (x,) = context.saved_tensors
        return 3 * x**2


def cube_and_gradient(x, upstream):
    x = x.clone().requires_grad_()
    cube = Cube.apply(x)
    cube.backward(upstream)
    return cube.detach(), x.grad


# %% passes_it_on of="forgets_what_came"
"""Wrong: passes the gradient on as if the function were the identity."""

# -        (x,) = context.saved_tensors
# -        return 3 * x**2
# +        return gradient

# %% two_for_three of="forgets_what_came"
"""Wrong: the derivative of a square."""

# -        return 3 * x**2
# +        return 2 * x * gradient

# %% adds_them of="forgets_what_came"
"""Wrong: adds the incoming gradient to the slope."""

# -        return 3 * x**2
# +        return 3 * x**2 + gradient

# %% right_page from="page"
"""Different: the page."""
