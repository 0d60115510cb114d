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
