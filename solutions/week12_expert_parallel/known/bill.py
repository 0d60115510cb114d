# %% right_closed
"""Different: C(E - E/N, k) / C(E, k) as a product."""


def nodes_of(per_node, count, k):
    missed = 1.0
    for place in range(k):
        missed *= max(0, per_node * (count - 1) - place) / (per_node * count - place)
    return count * (1 - missed)


def exchange_bill(tokens, k, hidden, ep, experts, nodes, allowed):
    payload = 2 * tokens * k * hidden
    leaves = payload - payload / ep
    per_node = experts // nodes
    return leaves, 4 * leaves, nodes_of(per_node, nodes, k), nodes_of(per_node, allowed, k)


# %% own_share_sent of="right_closed"
"""Wrong: what stays at home travels too."""

# -    leaves = payload - payload / ep
# +    leaves = payload

# %% one_copy of="right_closed"
"""Wrong: one copy of a token, whatever k."""

# -    payload = 2 * tokens * k * hidden
# +    payload = 2 * tokens * hidden

# %% float32 of="right_closed"
"""Wrong: four bytes for a number."""

# -    payload = 2 * tokens * k * hidden
# +    payload = 4 * tokens * k * hidden

# %% all_to_one of="right_closed"
"""Wrong: one share of the payload leaves."""

# -    leaves = payload - payload / ep
# +    leaves = payload / ep

# %% for_eight of="right_closed"
"""Wrong: seven eighths, whatever ep."""

# -    leaves = payload - payload / ep
# +    leaves = payload * 7 / 8

# %% forward_alone of="right_closed"
"""Wrong: dispatch and combine, without their backward."""

# -    return leaves, 4 * leaves, nodes_of(per_node, nodes, k), nodes_of(per_node, allowed, k)
# +    return leaves, 2 * leaves, nodes_of(per_node, nodes, k), nodes_of(per_node, allowed, k)

# %% dispatch_alone of="right_closed"
"""Wrong: forgets that results come home."""

# -    return leaves, 4 * leaves, nodes_of(per_node, nodes, k), nodes_of(per_node, allowed, k)
# +    return leaves, leaves, nodes_of(per_node, nodes, k), nodes_of(per_node, allowed, k)

# %% one_node_a_choice of="right_closed"
"""Wrong: a node for each choice."""

# -    return leaves, 4 * leaves, nodes_of(per_node, nodes, k), nodes_of(per_node, allowed, k)
# +    return leaves, 4 * leaves, min(k, nodes), nodes_of(per_node, allowed, k)

# %% as_many_as_allowed of="right_closed"
"""Wrong: takes the limit for the mean."""

# -    return leaves, 4 * leaves, nodes_of(per_node, nodes, k), nodes_of(per_node, allowed, k)
# +    return leaves, 4 * leaves, nodes_of(per_node, nodes, k), allowed

# %% with_replacement of="right_closed"
"""Wrong: draws an expert twice: N(1 - (1 - 1/N)^k)."""

# -        missed *= max(0, per_node * (count - 1) - place) / (per_node * count - place)
# +        missed *= (count - 1) / count

# %% limit_scales of="right_closed"
"""Wrong: nodes without a limit, times the share that is allowed."""

# -    return leaves, 4 * leaves, nodes_of(per_node, nodes, k), nodes_of(per_node, allowed, k)
# +    return leaves, 4 * leaves, nodes_of(per_node, nodes, k), nodes_of(per_node, nodes, k) * allowed / nodes

# %% all_experts_within_the_limit of="right_closed"
"""Wrong: spreads all experts over the allowed nodes."""

# -    return leaves, 4 * leaves, nodes_of(per_node, nodes, k), nodes_of(per_node, allowed, k)
# +    return leaves, 4 * leaves, nodes_of(per_node, nodes, k), nodes_of(experts // allowed, allowed, k)

# %% share_missed of="right_closed"
"""Wrong: the probability that a node is missed."""

# -    return count * (1 - missed)
# +    return count * missed

# %% right_fractions
"""Different: exact, by math.comb and fractions."""

from fractions import Fraction
from math import comb


def exchange_bill(tokens, k, hidden, ep, experts, nodes, allowed):
    rows = tokens * k
    sent = Fraction(rows * (ep - 1), ep) * hidden * 2
    found = []
    for count in (nodes, allowed):
        reach = experts // nodes * count
        found.append(float(count - count * Fraction(comb(reach - experts // nodes, k), comb(reach, k))))
    return [float(sent), float(sent * 4), *found]
