"""Which rank is where: coordinates on five axes, the groups of every axis, and the nodes that a group lies on."""

from shardlab.exports import lazily

__getattr__ = lazily(
    __name__,
    axes=("MEGATRON_ORDER", "Mesh", "mesh_of_world"),
    grid=("Grid",),
    nodes=("Position", "link_bytes_per_second", "position"),
    process_groups=("ProcessGroups", "create_process_groups", "with_groups"),
)
