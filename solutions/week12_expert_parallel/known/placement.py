# %% right_global_repaired
"""Different: all GPUs at once, as the global policy does; then experts trade places until they are at home."""


def place(loads, homes, places_per_gpu, gpus_per_node):
    num_gpus = (max(homes) + 1) * gpus_per_node
    copies = [1] * len(loads)
    while sum(copies) < num_gpus * places_per_gpu:
        hottest = max(range(len(loads)), key=lambda e: loads[e] / copies[e])
        copies[hottest] += 1
    share = [loads[e] / copies[e] for e in range(len(loads))]
    gpus, total = [[] for _ in range(num_gpus)], [0.0] * num_gpus
    for e in sorted((e for e in range(len(loads)) for _ in range(copies[e])), key=lambda e: -share[e]):
        gpu = min((g for g in range(num_gpus) if len(gpus[g]) < places_per_gpu), key=total.__getitem__)
        gpus[gpu].append(e)
        total[gpu] += share[e]
    most = 1.045 * sum(total) / num_gpus

    def away(e, gpu):
        return homes[e] != gpu // gpus_per_node

    def trade(minimum):
        for a in range(num_gpus):
            for b in range(a + 1, num_gpus):
                if a // gpus_per_node == b // gpus_per_node:
                    continue
                for i in range(places_per_gpu):
                    for j in range(places_per_gpu):
                        x, y = gpus[a][i], gpus[b][j]
                        gain = away(x, a) + away(y, b) - away(x, b) - away(y, a)
                        d = share[y] - share[x]
                        if gain >= minimum and total[a] + d <= most and total[b] - d <= most:
                            gpus[a][i], gpus[b][j] = y, x
                            total[a] += d
                            total[b] -= d

    for minimum in (2, 2, 1, 1, 1, 1, 2, 1):
        trade(minimum)
    return gpus


# %% global of="right_global_repaired"
"""Wrong: the published global policy: even, and scattered over all nodes; one point of three."""

# -    for minimum in (2, 2, 1, 1, 1, 1, 2, 1):
# +    for minimum in ():

# %% borrows_the_answer of="right_global_repaired"
"""Wrong: calls the package's own."""

#          total[gpu] += share[e]
# +    from shardlab.expert_parallel import placed
# +    placed(loads, num_places=len(loads), num_groups=1, num_nodes=1, num_gpus=1)

# %% right_node_first
"""Different: copies by need, then nodes by swaps, then GPUs."""


def place(loads, homes, places_per_gpu, gpus_per_node):
    num_nodes = max(homes) + 1
    room = gpus_per_node * places_per_gpu
    copies = [1] * len(loads)
    for _ in range(num_nodes * room - len(loads)):
        copies[max(range(len(loads)), key=lambda e: loads[e] / copies[e])] += 1
    share = [load / number for load, number in zip(loads, copies, strict=True)]
    nodes = [[e for e in range(len(loads)) for _ in range(copies[e]) if homes[e] == n] for n in range(num_nodes)]
    for mine in nodes:
        mine.sort(key=share.__getitem__)

    def load(n):
        return sum(share[e] for e in nodes[n])

    def give(source, target, at):
        nodes[target].append(nodes[source].pop(at))
        nodes[target].sort(key=share.__getitem__)

    while max(map(len, nodes)) > room:
        full = max(range(num_nodes), key=lambda n: len(nodes[n]))
        target = min((n for n in range(num_nodes) if len(nodes[n]) < room), key=load)
        give(full, target, -1 if load(full) > load(target) else 0)
    for _ in range(100):
        hot, cold = max(range(num_nodes), key=load), min(range(num_nodes), key=load)
        if load(hot) <= 1.02 * sum(loads) / num_nodes:
            break
        give(hot, cold, -1)
        give(cold, hot, 0)

    placed = []
    for mine in nodes:
        gpus = [[] for _ in range(gpus_per_node)]
        for expert in reversed(mine):
            free = [gpu for gpu in gpus if len(gpu) < places_per_gpu]
            min(free, key=lambda gpu: sum(share[e] for e in gpu)).append(expert)
        placed += gpus
    return placed


# %% no_copies of="right_node_first"
"""Wrong: copies of experts in turn, whatever their load."""

# -        copies[max(range(len(loads)), key=lambda e: loads[e] / copies[e])] += 1
# +        copies[_ % len(loads)] += 1

# %% copies_of_the_hottest_alone of="right_node_first"
"""Wrong: all copies to the hottest expert."""

# -        copies[max(range(len(loads)), key=lambda e: loads[e] / copies[e])] += 1
# +        copies[max(range(len(loads)), key=lambda e: loads[e])] += 1

# %% two_each of="right_node_first"
"""Wrong: a second copy of the hottest ones, never a third."""

# -        copies[max(range(len(loads)), key=lambda e: loads[e] / copies[e])] += 1
# +        copies[max(range(len(loads)), key=lambda e: loads[e] / (copies[e] == 1 or 1e9))] += 1

# %% hierarchical of="right_node_first"
"""Wrong: the published hierarchical policy: every expert at home."""

# -    for _ in range(num_nodes * room - len(loads)):
# -        copies[max(range(len(loads)), key=lambda e: loads[e] / copies[e])] += 1
# +    for n in range(num_nodes):
# +        here = [e for e in range(len(loads)) if homes[e] == n]
# +        for _ in range(room - len(here)):
# +            copies[max(here, key=lambda e: loads[e] / copies[e])] += 1

# -        if load(hot) <= 1.02 * sum(loads) / num_nodes:
# -            break
# +        break

# %% unsorted of="right_node_first"
"""Wrong: packs copies as they come."""

# -        for expert in reversed(mine):
# +        for expert in sorted(mine):

# %% coldest_first of="right_node_first"
"""Wrong: packs the coldest first."""

# -        for expert in reversed(mine):
# +        for expert in mine:

# %% in_rows of="right_node_first"
"""Wrong: fills one GPU after the other."""

# -            min(free, key=lambda gpu: sum(share[e] for e in gpu)).append(expert)
# +            free[0].append(expert)

# %% whole_loads of="right_node_first"
"""Wrong: packs by whole loads, as if copies did not share."""

# -            min(free, key=lambda gpu: sum(share[e] for e in gpu)).append(expert)
# +            min(free, key=lambda gpu: sum(loads[e] for e in gpu)).append(expert)

# %% loses_the_cold of="right_node_first"
"""Wrong: leaves out the coldest experts."""

# -    return placed
# +    return [[min(loads.index(max(loads)), e) if loads[e] == min(loads) else e for e in gpu] for gpu in placed]

# %% fewer_places of="right_node_first"
"""Wrong: no copies at all: places stay empty."""

# -    for _ in range(num_nodes * room - len(loads)):
# +    for _ in range(0):

# %% a_dict of="right_node_first"
"""Wrong: returns GPUs by number."""

# -    return placed
# +    return dict(enumerate(placed))
