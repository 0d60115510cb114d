"""Readable bytes and seconds: "24.5 GB", "490 ms". Units are powers of ten, as in link speeds."""

from matplotlib.ticker import FuncFormatter

MEMORY = {"GB": 1e9, "GiB": 2.0**30}  # units for memory figures, in bytes

_BYTES = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "KB"), (1.0, "B")]
_SECONDS = [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")]


def bytes_of_unit(unit: str) -> float:
    """The bytes in one GB or GiB. Figures use the unit of the page's text, which is GiB on pages with the planner.

    Raises ValueError for another unit.
    """
    if unit not in MEMORY:
        raise ValueError(f"memory is not drawn in {unit}: use {' or '.join(MEMORY)}")
    return MEMORY[unit]


def written_bytes(num_bytes: float) -> str:
    """24500000000.0 -> "24.5 GB"."""
    return _written(num_bytes, _BYTES, digits=4)


def bytes_on_axis(largest: float) -> FuncFormatter:
    """A formatter that writes all numbers of an axis that ends at `largest` in one unit: 0, 0.6 MB, 1.2 MB."""
    scale, unit = next((pair for pair in _BYTES if largest >= pair[0]), _BYTES[-1])
    return FuncFormatter(lambda value, _: f"{value / scale:g} {unit}" if value else "0")


def written_seconds(seconds: float) -> str:
    """0.49 -> "490 ms"."""
    return _written(seconds, _SECONDS, digits=3)


def _written(value: float, units: list[tuple[float, str]], digits: int) -> str:
    rounded = float(f"{value:.{digits}g}")
    scale, unit = next((pair for pair in units if abs(rounded) >= pair[0]), units[-1])
    return f"{float(f'{rounded / scale:.{digits}g}'):g} {unit}"
