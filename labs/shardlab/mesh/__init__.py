"""Map ranks to a mesh: coordinates on five axes, the groups of every axis, and the nodes that a group occupies."""

from typing import TYPE_CHECKING

from shardlab.exports import lazily

if TYPE_CHECKING:
    from shardlab.mesh.axes import MEGATRON_ORDER, Mesh
    from shardlab.mesh.grid import Grid
    from shardlab.mesh.nodes import link_bytes_per_second, position
    from shardlab.mesh.process_groups import create_process_groups
else:
    __getattr__, __dir__, __all__ = lazily(__name__)
