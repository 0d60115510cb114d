"""The five axes of a training run: tensor, context, expert, data and pipeline parallelism on the same ranks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from shardlab.costs.models.model import divisors
from shardlab.mesh.grid import Grid

MEGATRON_ORDER = "tp-cp-ep-dp-pp"
DENSE = ("tp", "cp", "dp", "pp")
EXPERT = ("etp", "ep", "edp")
_NAMES = ("tp", "cp", "ep", "dp", "pp")
_EXPERT_NAME = {"tp": "etp", "ep": "ep", "dp": "edp", "pp": "pp"}  # expert axis for each axis name


@dataclass(frozen=True)
class Mesh:
    """Sizes of the axes and the order in which ranks are numbered, innermost axis first.

    world = tp * cp * dp * pp: experts need no additional ranks. For them, the tp * cp * dp ranks of a stage are
    arranged differently, as etp * ep * edp: `ep` ranks hold different experts, `etp` ranks share one expert's
    matrices (default: tp), and edp = tp * cp * dp / (etp * ep) ranks hold the same ones (Megatron-Core,
    parallel_state.py).
    order: axes joined by "-"; an axis of size 1 may be omitted.
    Raises ValueError, with sizes that would work, when the axes do not fit together.
    """

    tp: int = 1
    pp: int = 1
    dp: int = 1
    cp: int = 1
    ep: int = 1
    etp: int | None = None
    order: str = MEGATRON_ORDER

    def __post_init__(self) -> None:
        _check_order(self)
        sharers = self.dense.world // self.pp
        for name, size in (("etp", self.expert_tp), ("ep", self.ep)):
            if type(size) is not int or size < 1 or sharers % size:
                raise ValueError(
                    f"{name} = {size!r} does not divide the {sharers} ranks of a stage (tp * cp * dp): "
                    f"use {_listed(divisors(sharers))}"
                )
        if sharers % (self.expert_tp * self.ep):
            fits = divisors(sharers // self.expert_tp)
            raise ValueError(
                f"etp * ep = {self.expert_tp} * {self.ep} does not divide the {sharers} ranks of a stage: with etp = "
                f"{self.expert_tp} use ep of {_listed(fits)}"
            )
        if self.counts_experts_apart and self.experts.groups("pp") != self.dense.groups("pp"):
            raise ValueError(
                f"in the order {self.order!r}, the pipelines of experts have other ranks than those of the dense "
                "layers: use an order that ends with pp"
            )

    @property
    def expert_tp(self) -> int:
        """Ranks that share the matrices of one expert."""
        return self.tp if self.etp is None else self.etp

    @property
    def counts_experts_apart(self) -> bool:
        """Whether experts have separate groups."""
        return self.ep > 1 or self.expert_tp != self.tp

    @property
    def world(self) -> int:
        """The number of ranks, tp * cp * dp * pp."""
        return self.dense.world

    @cached_property
    def dense(self) -> Grid:
        """The grid of ranks for everything except experts."""
        return Grid(tuple((name, getattr(self, name)) for name in _full_order(self.order) if name != "ep"))

    @cached_property
    def experts(self) -> Grid:
        """The grid of the same ranks for experts."""
        edp = self.dense.world // (self.pp * self.expert_tp * self.ep)
        sizes = {"etp": self.expert_tp, "ep": self.ep, "edp": edp, "pp": self.pp}
        names = (_EXPERT_NAME[name] for name in _full_order(self.order) if name != "cp")
        return Grid(tuple((name, sizes[name]) for name in names))

    def coordinates(self, rank: int) -> dict[str, int]:
        """The coordinates of a rank on tp, cp, dp and pp, and for experts on etp, ep and edp."""
        experts = self.experts.coordinates(rank)
        return self.dense.coordinates(rank) | {name: experts[name] for name in EXPERT}

    def rank_at(self, **coordinates: int) -> int:
        """The rank at coordinates on tp, cp, dp, pp or on etp, ep, edp, pp; omitted coordinates are 0."""
        return self.grid_of(*coordinates).rank_at(coordinates)

    def group_of(self, rank: int, *axes: str) -> list[int]:
        """The ranks with which `rank` communicates on these axes: group_of(37, "dp", "cp") reduces its gradients."""
        return self.grid_of(*axes).group_of(rank, *axes)

    def groups(self, *axes: str) -> list[list[int]]:
        """All groups of these axes. Gradients are reduced over ("dp", "cp"), those of experts over ("edp",)."""
        return self.grid_of(*axes).groups(*axes)

    def grid_of(self, *axes: str) -> Grid:
        """The grid that has all these axes. Raises ValueError for axes that no single grid has."""
        if set(axes) <= set(DENSE):
            return self.dense
        if set(axes) <= {*EXPERT, "pp"}:
            return self.experts
        raise ValueError(
            f"{', '.join(axes)} cannot be combined: use axes among {', '.join(DENSE)}, "
            f"or, for experts, among {', '.join(EXPERT)}, pp"
        )


def mesh_of_world(
    world: int, *, tp: int = 1, pp: int = 1, cp: int = 1, ep: int = 1, etp: int | None = None, order=MEGATRON_ORDER
) -> Mesh:
    """The mesh of `world` ranks; dp follows from the other axes. Raises ValueError when they do not divide it."""
    if type(world) is not int or world < 1:
        raise ValueError(f"a world of {world!r} ranks has no mesh: use 1 or more")
    copy = Mesh(tp=tp, pp=pp, cp=cp, order=order).world
    if world % copy:
        raise ValueError(
            f"tp * pp * cp = {tp} * {pp} * {cp} = {copy} ranks hold one copy of the model, but {world} is not a "
            f"multiple of {copy}: use {world // copy * copy or copy} ranks, or a product among "
            f"{_listed(divisors(world))}"
        )
    return Mesh(tp=tp, pp=pp, dp=world // copy, cp=cp, ep=ep, etp=etp, order=order)


def _full_order(order: str) -> list[str]:
    """The axis names in this order, innermost first; omitted ones come last."""
    named = order.lower().split("-")
    return [*named, *(name for name in _NAMES if name not in named)]


def _check_order(mesh: Mesh) -> None:
    named = mesh.order.lower().split("-")
    if len(set(named)) < len(named) or not set(named) <= set(_NAMES):
        raise ValueError(f"{mesh.order!r} is not an order of axes: join each of {', '.join(_NAMES)} once by '-'")
    for name in _NAMES:
        if name not in named and getattr(mesh, name) != 1:
            raise ValueError(
                f"{name} = {getattr(mesh, name)} is missing from the order {mesh.order!r}: add it, as in "
                f"{mesh.order}-{name}"
            )


def _listed(sizes: list[int]) -> str:
    return ", ".join(map(str, sizes[:-1])) + f" or {sizes[-1]}" if len(sizes) > 1 else str(sizes[0])
