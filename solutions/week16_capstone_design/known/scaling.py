# %% right_as_taught from="page"
"""Different: as the page solves it."""

# %% right_with_logarithms
"""Different: adds logarithms, and gets the tokens from 6 N D."""

import math


def scaled_run(parameters, tokens, loss, times):
    compute = 6 * parameters * tokens * times
    n = math.exp(math.log(parameters) + 0.73 * math.log(times))
    return [n, compute / (6 * n), math.exp(math.log(loss) - 0.05 * math.log(times))]


# %% all_into_tokens of="right_as_taught"
"""Wrong: mixes up the two powers: more tokens than parameters."""

# -    return parameters * times**0.73, tokens * times**0.27, loss * times**-0.050
# +    return parameters * times**0.27, tokens * times**0.73, loss * times**-0.050

# %% both_alike of="right_as_taught"
"""Wrong: equal shares, as Hoffmann et al. found later; the question is about Kaplan's law."""

# -    return parameters * times**0.73, tokens * times**0.27, loss * times**-0.050
# +    return parameters * times**0.5, tokens * times**0.5, loss * times**-0.050

# %% tokens_by_the_data_law of="right_as_taught"
"""Wrong: a power for the tokens that does not add up to the compute."""

# -    return parameters * times**0.73, tokens * times**0.27, loss * times**-0.050
# +    return parameters * times**0.73, tokens * times**0.095, loss * times**-0.050

# %% loss_rises of="right_as_taught"
"""Wrong: the sign of the loss's exponent."""

# -    return parameters * times**0.73, tokens * times**0.27, loss * times**-0.050
# +    return parameters * times**0.73, tokens * times**0.27, loss * times**0.050

# %% loss_of_the_parameters of="right_as_taught"
"""Wrong: the exponent of the loss by parameters, 0.076, applied to the compute."""

# -    return parameters * times**0.73, tokens * times**0.27, loss * times**-0.050
# +    return parameters * times**0.73, tokens * times**0.27, loss * times**-0.076

# %% linear of="right_as_taught"
"""Wrong: everything into a larger model."""

# -    return parameters * times**0.73, tokens * times**0.27, loss * times**-0.050
# +    return parameters * times, tokens, loss * times**-0.050
