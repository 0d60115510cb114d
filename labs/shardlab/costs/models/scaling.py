"""Scaling laws of Kaplan et al. (arXiv 2001.08361): how loss, parameters and tokens follow the compute.

Shapes and units: C is FLOPs, C = 6 N D for N parameters and D tokens; the loss is in nats per token. With the compute
allocated best, N grows as C**0.73, and so D as C**0.27; the loss falls as C**-0.050 (table 6).
Later measurements find other exponents (Hoffmann et al., arXiv 2203.15556: about 0.5 for both).
"""

PARAMETERS_PER_COMPUTE = 0.73
LOSS_PER_COMPUTE = -0.050


def scaled_run(parameters: float, tokens: float, loss: float, times: float) -> tuple[float, float, float]:
    """(parameters, tokens, loss) of the run that `times` the compute should train, given one that is allocated best."""
    more = times**PARAMETERS_PER_COMPUTE
    return parameters * more, tokens * times / more, loss * times**LOSS_PER_COMPUTE
