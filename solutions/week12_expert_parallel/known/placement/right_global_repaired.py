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
