# %% right_as_taught from="page"
"""Different: as the page solves it."""

# %% right_by_elimination
"""Different: no solver: removes one operator after the other, the one with the fewest neighbors first."""

from itertools import product


def shardings(node_costs, edges):
    tables = [((v,), {(a,): cost for a, cost in enumerate(costs)}) for v, costs in enumerate(node_costs)]
    tables += [((i, j), {(a, b): m[a][b] for a in range(len(m)) for b in range(len(m[0]))}) for i, j, m in edges]
    left, decided = set(range(len(node_costs))), []
    while left:
        around = {v: {u for scope, _ in tables if v in scope for u in scope} - {v} for v in left}
        v = min(left, key=lambda one: len(around[one]))
        scope = tuple(sorted(around[v]))
        mine = [table for table in tables if v in table[0]]
        tables = [table for table in tables if v not in table[0]]
        best, values = {}, {}
        for place in product(*(range(len(node_costs[u])) for u in scope)):
            at = dict(zip(scope, place, strict=True))
            costs = []
            for choice in range(len(node_costs[v])):
                at[v] = choice
                costs.append(sum(values_[tuple(at[u] for u in names)] for names, values_ in mine))
            values[place] = min(costs)
            best[place] = costs.index(values[place])
        tables.append((scope, values))
        decided.append((v, scope, best))
        left.remove(v)
    chosen = {}
    for v, scope, best in reversed(decided):
        chosen[v] = best[tuple(chosen[u] for u in scope)]
    return [chosen[v] for v in range(len(node_costs))]


# %% right_with_lower_bounds
"""Different: the products as z >= x + y - 1, enough because costs are not negative."""

import highspy


def shardings(node_costs, edges):
    h = highspy.Highs()
    h.silent()
    s = [[h.addBinary() for _ in costs] for costs in node_costs]
    objective = []
    for v, costs in enumerate(node_costs):
        h.addConstr(sum(s[v]) == 1)
        objective += [c * x for c, x in zip(costs, s[v], strict=True)]
    for i, j, matrix in edges:
        for a, row in enumerate(matrix):
            for b, c in enumerate(row):
                if c:
                    z = h.addBinary()
                    h.addConstr(z - s[i][a] - s[j][b] >= -1)
                    objective.append(c * z)
    h.minimize(sum(objective))
    return [[round(h.val(x)) for x in xs].index(1) for xs in s]


# %% each_operator_alone
"""Wrong: the cheapest sharding of every operator, without the edges."""


def shardings(node_costs, edges):
    return [costs.index(min(costs)) for costs in node_costs]


# %% edges_alone of="right_as_taught"
"""Wrong: only resharding counts."""

# -    total = sum(map(priced, node_costs, picked))
# +    total = 0 * picked[0][0]

# %% greedy_along_the_graph
"""Wrong: one operator after the other, each the cheapest given those before."""


def shardings(node_costs, edges):
    chosen = []
    for v, costs in enumerate(node_costs):
        before = [(i, m) for i, j, m in edges if j == v]
        paid = [c + sum(m[chosen[i]][k] for i, m in before) for k, c in enumerate(costs)]
        chosen.append(paid.index(min(paid)))
    return chosen


# %% all_alike
"""Wrong: the same sharding everywhere, which saves most resharding."""


def shardings(node_costs, edges):
    def paid(choices):
        nodes = sum(costs[c] for costs, c in zip(node_costs, choices, strict=True))
        return nodes + sum(m[choices[i]][choices[j]] for i, j, m in edges)

    every = [[min(k, len(costs) - 1) for costs in node_costs] for k in range(max(map(len, node_costs)))]
    return min(every, key=paid)


# %% transposed of="right_as_taught"
"""Wrong: rows and columns of the edges' matrices mixed up."""

# -        total += sum(map(priced, matrix, both))
# +        total += sum(map(priced, list(zip(*matrix)), both))

# %% rows_alone of="right_as_taught"
"""Wrong: ties the edges' variables to the first operator only."""

# -        for y, column in zip(picked[j], zip(*both, strict=True), strict=True):
# -            model.addConstr(sum(column) == y)

# %% tries_everything
"""Wrong: prices all combinations: right for four operators, hopeless for fourteen.

Not in sight: the visible cases have four operators.
"""

from itertools import product


def shardings(node_costs, edges):
    def paid(choices):
        nodes = sum(costs[c] for costs, c in zip(node_costs, choices, strict=True))
        return nodes + sum(m[choices[i]][choices[j]] for i, j, m in edges)

    return list(min(product(*(range(len(costs)) for costs in node_costs)), key=paid))
