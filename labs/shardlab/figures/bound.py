"""The lower bound of a step under a cap on activations, drawn as round trips through the pipeline."""

from typing import cast

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from shardlab.figures.palette import PALETTE
from shardlab.figures.timeline_marks import HEIGHT, Box, draw_box, write_numbers
from shardlab.pipeline_parallel.bounds import least_makespan
from shardlab.pipeline_parallel.schedule import Kind

FORWARD, BACKWARD = 1.0, 2.0  # units
MOST_BOXES = 400


def round_trips(num_ranks: int, num_microbatches: int, max_activations: int) -> list[tuple[int, list[Box]]]:
    """For each microbatch, the place that it occupies, and the boxes of its trip: F on ranks 0 to P-1, B on P-1 to 0.

    A trip takes at least P(F+B). With C places, C trips are under way at a time. Those of the last round begin F+B
    after one another, because the last rank works that long on each.
    """
    places = min(max_activations, num_ranks)
    rounds = (num_microbatches - 1) // places
    trips = []
    for m in range(num_microbatches):
        turn, place = divmod(m, places)
        begin = (FORWARD + BACKWARD) * (turn * num_ranks + (place if turn == rounds else 0))
        trips.append((place, _trip(num_ranks, m, begin)))
    return trips


def _trip(num_ranks: int, microbatch: int, begin: float) -> list[Box]:
    forwards = [
        Box(Kind.F, rank, microbatch, begin + rank * FORWARD, begin + (rank + 1) * FORWARD) for rank in range(num_ranks)
    ]
    begin += num_ranks * FORWARD
    ends = [begin + (step + 1) * BACKWARD for step in range(num_ranks)]
    return forwards + [
        Box(Kind.B, num_ranks - 1 - step, microbatch, end - BACKWARD, end, seam=end - BACKWARD / 2)
        for step, end in enumerate(ends)
    ]


def draw_least_makespan(ax: Axes, num_ranks: int, num_microbatches: int, max_activations: int) -> str:
    """Draw why no step can be faster: one lane per place, and a frame around the last rank's work in the last round.

    Returns the sentence. Raises ValueError for too many boxes to see.
    """
    end = least_makespan(num_ranks, num_microbatches, max_activations, forward=FORWARD, backward=BACKWARD)
    if (boxes := 2 * num_ranks * num_microbatches) > MOST_BOXES:
        raise ValueError(f"{boxes} boxes are too many to see: draw at most {MOST_BOXES}")
    trips = round_trips(num_ranks, num_microbatches, max_activations)
    places = 1 + max(place for place, _ in trips)
    _lanes(ax, places, end, num_ranks - 1)
    title = f"{num_ranks} ranks, {num_microbatches} microbatches, room for {max_activations}"
    ax.set_title(f"{title}: no step takes less than {end:g} units", loc="left", fontsize=10)
    cast(Figure, ax.figure).draw_without_rendering()  # the layout determines the width of a box
    for place, boxes_of_trip in trips:
        for box in boxes_of_trip:
            draw_box(ax, place, box, hatched=False)
    write_numbers(ax, [(place, box, False) for place, trip in trips for box in trip])
    rounds, last = divmod(num_microbatches - 1, places)
    for place, trip in trips[rounds * places :]:
        size = (FORWARD + BACKWARD, HEIGHT)
        corner = (trip[num_ranks - 1].begin, place - HEIGHT / 2)
        ax.add_artist(Rectangle(corner, *size, fill=False, edgecolor="black", linewidth=1.8, zorder=6))
    trip_units = num_ranks * (FORWARD + BACKWARD)
    return (
        f"In words: a microbatch needs {trip_units:g} units from rank 0 to the last rank and back. Only {places} "
        f"can be under way, so the last {last + 1} of {num_microbatches} enter after {rounds} full rounds, at "
        f"{rounds * trip_units:g} or later. The last rank works on them one after the other, {FORWARD + BACKWARD:g} "
        f"units each, which delays the last one by {last * (FORWARD + BACKWARD):g}; its own trip then ends at {end:g}."
    )


def _lanes(ax: Axes, places: int, end: float, last: int) -> None:
    ax.set_xlim(0, end)
    ax.set_ylim(places - 0.5, -0.5)
    ax.set_yticks(range(places), [f"place {place + 1}" for place in range(places)], fontsize=8)
    ax.tick_params(axis="x", labelsize=8)
    ax.tick_params(axis="y", length=0)
    ax.spines[["left", "top", "right"]].set_visible(False)
    trip = f"a trip is F on ranks 0 to {last}, then B on ranks {last} to 0"
    ax.set_xlabel(f"units of time; {trip}; framed: rank {last} in the last round", fontsize=8)
    for place in range(places):
        ax.add_artist(Rectangle((0, place - HEIGHT / 2), end, HEIGHT, facecolor=PALETTE["idle"], linewidth=0))
