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
