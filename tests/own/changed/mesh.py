import torch.distributed as dist


def my_groups(axes, sizes):
    """This rank's process group for each name of `axes`, such as {"copies": ["dp", "cp"]}; all ranks make all."""
    mine = {}
    for name, chosen in axes.items():
        for members in groups(chosen, sizes):  # noqa: F821 - the page has it
            group = dist.new_group(members)
            if dist.get_rank() in members:
                mine[name] = group
    return mine
