# %% right_as_taught from="page"
"""Different: as the page solves it."""

# %% right_with_groups
"""Different: lists the ranks of the group by their coordinates."""

from itertools import product


def axis_seconds(order, sizes, sent, per_node, nvlink, network):
    places = product(*(range(sizes[name]) for name in reversed(order)))  # the last of product's factors changes fastest
    ranks = [dict(zip(reversed(order), place, strict=True)) for place in places]
    found = {}
    for name in order:
        group = [r for r, at in enumerate(ranks) if all(at[other] == 0 for other in order if other != name)]
        nodes = {}
        for rank in group:
            nodes.setdefault(rank // per_node, []).append(rank)
        cards = max(map(len, nodes.values()))
        speed = nvlink if len(nodes) == 1 else min(nvlink, cards * network)
        found[name] = 0 if len(group) == 1 else sent[name] / speed
    return found


# %% one_card of="right_as_taught"
"""Wrong: always one card between nodes."""

# -        speed = nvlink if here == size else min(nvlink, here * network)
# +        speed = nvlink if here == size else network

# %% faster_than_nvlink of="right_as_taught"
"""Wrong: many cards together without NVLink's limit."""

# -        speed = nvlink if here == size else min(nvlink, here * network)
# +        speed = nvlink if here == size else here * network

# %% every_axis_is_innermost of="right_as_taught"
"""Wrong: forgets that ranks of an outer axis are apart."""

# -        stride *= size
# +        stride = 1

# %% outermost_first of="right_as_taught"
"""Wrong: reads the order from the outside."""

# -    for name in order:
# +    for name in reversed(order):

# %% all_cards_of_the_node of="right_as_taught"
"""Wrong: gives every group all cards of the node."""

# -        speed = nvlink if here == size else min(nvlink, here * network)
# +        speed = nvlink if here == size else min(nvlink, per_node * network)

# %% always_the_network of="right_as_taught"
"""Wrong: NVLink only if the group fills the node."""

# -        speed = nvlink if here == size else min(nvlink, here * network)
# +        speed = nvlink if size == per_node and stride == 1 else min(nvlink, here * network)

# %% sizes_in_their_own_order of="right_as_taught"
"""Wrong: follows the order of the dict of sizes."""

# -    for name in order:
# +    for name in sizes:
