# %% right_as_taught from="page" also="week15.data-order week15.finish week15.own-weights week15.stage week15.backward week15.update"
"""Different: the page's own solution."""

from random import Random

import torch
from mine import collectives, ddp, fsdp, long_context, model, moe, pipeline, program, sequence_parallel, zero

dist = torch.distributed

# %% right_with_all_reduce of="right_as_taught"
"""Different: torch's all-reduce for the two sums, in one tensor that is overwritten; rows cut by hand."""

# -    return [long_context.my_part(one, one, group=groups["cp"]) for one in tokens.chunk(recipe.microbatches)]
# +    rows, parts = len(tokens) // recipe.microbatches, []
# +    for first in range(0, len(tokens), rows):
# +        parts.append(long_context.my_part(tokens[first : first + rows], tokens[first : first + rows], group=groups["cp"]))
# +    return parts

# -    sums = torch.tensor([loss, tokens], dtype=torch.float64)
# -    sums = collectives.ring_all_reduce(sums, group=groups["copies"])
# +    sums = torch.tensor([loss, float(tokens)]).double()
# +    dist.all_reduce(sums, group=groups["copies"])

# %% every_rank_reads_all of="right_as_taught"
"""Wrong: every replica reads the first replica's sequences."""

# -    tokens = trainer.text[sequences(recipe.seed, step, replica, num, recipe.batch, len(trainer.text))]
# +    tokens = trainer.text[sequences(recipe.seed, step, 0, num, recipe.batch, len(trainer.text))]

# %% ep_reads_alike of="right_as_taught"
"""Wrong: ranks of ep read the same sequences."""

# -    replica, num = groups["dp"].rank() * recipe.ep + groups["ep"].rank(), recipe.dp * recipe.ep
# +    replica, num = groups["dp"].rank() * recipe.ep, recipe.dp * recipe.ep

# %% own_tokens_alone of="right_as_taught"
"""Wrong: takes its own tokens for all valid ones."""

# -    update(trainer, gradients, tokens, float(sums[1]))
# +    update(trainer, gradients, tokens, float(tokens))

# %% loss_of_own_stage of="right_as_taught"
"""Wrong: the first stages report a loss of zero."""

# -    return float(collectives.ring_all_reduce(sums[:1], group=groups["pp"]) / sums[1])
# +    return float(sums[0] / sums[1])

# %% loss_over_copies_twice of="right_as_taught"
"""Wrong: counts the tokens of tp ranks as well.

Not in sight: the public case with tp has ZeRO-0, which counts tokens itself.
"""

# -    sums = collectives.ring_all_reduce(sums, group=groups["copies"])
# +    sums = collectives.ring_all_reduce(collectives.ring_all_reduce(sums, group=groups["copies"]), group=groups["tp"])

# %% biases_stay of="right_as_taught"
"""Wrong: the routers' biases never move."""

# -        if recipe.experts and block.isdigit():
# +        if False:

# %% own_loads of="right_as_taught"
"""Wrong: each rank moves its biases by its own loads.

Not in sight: in a few steps they seldom change a choice.
"""

# -            load = collectives.ring_all_reduce(own["load"], group=groups["stage"])
# +            load = own["load"]

# %% one_microbatch of="right_as_taught"
"""Wrong: trains on the first microbatch only, again and again."""

# -    loss, gradients = backward(trainer, lambda stage, m, x: stage_output(trainer, batch[m], stage, x), like)
# +    loss, gradients = backward(trainer, lambda stage, m, x: stage_output(trainer, batch[0], stage, x), like)

# %% same_step_again of="right_as_taught"
"""Wrong: from the second step on it divides by twice the tokens."""

# -    update(trainer, gradients, tokens, float(sums[1]))
# +    update(trainer, gradients, tokens, float(sums[1]) * (2 if step else 1))
