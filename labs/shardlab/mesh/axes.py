"""The five axes of a training: tensor, context, expert, data and pipeline parallel, on the same ranks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from shardlab.costs.models.model import divisors
from shardlab.mesh.grid import Grid

MEGATRON_ORDER = "tp-cp-ep-dp-pp"
DENSE = ("tp", "cp", "dp", "pp")
EXPERT = ("etp", "ep", "edp")
_NAMES = ("tp", "cp", "ep", "dp", "pp")
_EXPERT_NAME = {"tp": "etp", "ep": "ep", "dp": "edp", "pp": "pp"}  # which axis of the experts stands at a place


@dataclass(frozen=True)
class Mesh:
    """Sizes of the axes and the order in which ranks are numbered, the innermost axis first.

    world = tp * cp * dp * pp: experts need no ranks of their own. The tp * cp * dp ranks of a stage are counted once
    more for them, as etp * ep * edp: `ep` ranks hold different experts, `etp` share one expert's matrices (as many as
    tp, if left out), and edp = tp * cp * dp / (etp * ep) hold the same ones (Megatron-Core, parallel_state.py).
    order: axes joined by "-"; an axis of size 1 may be left out.
    Raises ValueError, with the sizes that would work, when the axes do not fit on each other.
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
                f"in the order {self.order!r} the experts' pipelines have ranks that differ from those of the rest: "
                "use an order that ends with pp"
            )

    @property
    def expert_tp(self) -> int:
        """Ranks that share the matrices of one expert."""
        return self.tp if self.etp is None else self.etp

    @property
    def counts_experts_apart(self) -> bool:
        """Whether experts have groups of their own."""
        return self.ep > 1 or self.expert_tp != self.tp

    @property
    def world(self) -> int:
        """tp * cp * dp * pp ranks."""
        return self.dense.world

    @cached_property
    def dense(self) -> Grid:
        """The ranks as everything but the experts sees them."""
        return Grid(tuple((name, getattr(self, name)) for name in _full_order(self.order) if name != "ep"))

    @cached_property
    def experts(self) -> Grid:
        """The same ranks as the experts see them."""
        edp = self.dense.world // (self.pp * self.expert_tp * self.ep)
        sizes = {"etp": self.expert_tp, "ep": self.ep, "edp": edp, "pp": self.pp}
        names = (_EXPERT_NAME[name] for name in _full_order(self.order) if name != "cp")
        return Grid(tuple((name, sizes[name]) for name in names))

    def coordinates(self, rank: int) -> dict[str, int]:
        """The place of a rank on tp, cp, dp and pp, and for experts on etp, ep and edp."""
        experts = self.experts.coordinates(rank)
        return self.dense.coordinates(rank) | {name: experts[name] for name in EXPERT}

    def rank_at(self, **coordinates: int) -> int:
        """The rank at a place: of tp, cp, dp, pp, or of etp, ep, edp, pp; 0 on the axes that are left out."""
        return self.grid_of(*coordinates).rank_at(coordinates)

    def group_of(self, rank: int, *axes: str) -> list[int]:
        """The ranks with which `rank` talks on these axes: group_of(37, "dp", "cp") reduces its gradients."""
        return self.grid_of(*axes).group_of(rank, *axes)

    def groups(self, *axes: str) -> list[list[int]]:
        """All groups of these axes. Over ("dp", "cp") gradients are reduced, over ("edp",) those of experts."""
        return self.grid_of(*axes).groups(*axes)

    def grid_of(self, *axes: str) -> Grid:
        """The count of the ranks that has all these axes. Raises ValueError for axes of both."""
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
    """The mesh of so many ranks: dp is what the other axes leave. Raises ValueError when they do not divide."""
    if type(world) is not int or world < 1:
        raise ValueError(f"a world of {world!r} ranks has no mesh: use 1 or more")
    copy = Mesh(tp=tp, pp=pp, cp=cp, order=order).world
    if world % copy:
        raise ValueError(
            f"tp * pp * cp = {tp} * {pp} * {cp} = {copy} ranks hold one copy of the model, and {world} is not a "
            f"multiple of {copy}: use {world // copy * copy or copy} ranks, or a product among "
            f"{_listed(divisors(world))}"
        )
    return Mesh(tp=tp, pp=pp, dp=world // copy, cp=cp, ep=ep, etp=etp, order=order)


def _full_order(order: str) -> list[str]:
    """The names in an order, the innermost first; those that were left out come last."""
    named = order.lower().split("-")
    return [*named, *(name for name in _NAMES if name not in named)]


def _check_order(mesh: Mesh) -> None:
    named = mesh.order.lower().split("-")
    if len(set(named)) < len(named) or not set(named) <= set(_NAMES):
        raise ValueError(f"{mesh.order!r} is not an order of axes: join each of {', '.join(_NAMES)} once by '-'")
    for name in _NAMES:
        if name not in named and getattr(mesh, name) != 1:
            raise ValueError(
                f"{name} = {getattr(mesh, name)} has no place in the order {mesh.order!r}: add it, as in "
                f"{mesh.order}-{name}"
            )


def _listed(sizes: list[int]) -> str:
    return ", ".join(map(str, sizes[:-1])) + f" or {sizes[-1]}" if len(sizes) > 1 else str(sizes[0])
