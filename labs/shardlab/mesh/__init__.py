"""Which rank is where: coordinates on five axes, the groups of every axis, and the nodes that a group lies on."""

from shardlab.mesh.axes import MEGATRON_ORDER, Mesh
from shardlab.mesh.grid import Grid

__all__ = ["MEGATRON_ORDER", "Grid", "Mesh"]
