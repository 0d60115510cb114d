"""One color per meaning in the whole course, distinguishable with every kind of color vision; and fonts for Chinese.

The colors are Okabe and Ito's, "Color Universal Design", 2008, plus two grays.
"""

from matplotlib import font_manager
from matplotlib.colors import to_hex, to_rgb

PALETTE = {
    "forward": "#56B4E9",  # and activations
    "backward": "#D55E00",  # the half that computes input gradients
    "weights": "#F0E442",  # the half that computes weight gradients, and these gradients
    "communication": "#0072B2",
    "optimizer": "#CC79A7",  # and its state
    "idle": "#ECECEC",
    "parameters": "#4D4D4D",
}
MEASURED = "#000000"

_FONTS = ["DejaVu Sans", "WenQuanYi Micro Hei", "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei"]


def fonts() -> list[str]:
    """The course's fonts that this machine has, in order: later fonts are fallbacks for missing characters."""
    present = set(font_manager.get_font_names())
    return [font for font in _FONTS if font in present]


def luminance(colour: str) -> float:
    """Relative luminance, 0 (black) to 1 (white): WCAG 2.1, section 1.4.3."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def ink(colour: str) -> str:
    """The color, darkened until text in it can be read on white (WCAG 2.1, section 1.4.3: a contrast of 4.5)."""
    while luminance(colour) > 1.05 / 4.5 - 0.05:
        red, green, blue = to_rgb(colour)
        colour = to_hex((0.95 * red, 0.95 * green, 0.95 * blue))
    return colour


def text_colour(fill: str) -> str:
    """Black or white, whichever has more contrast with `fill`."""
    bright = luminance(fill)
    return "black" if (bright + 0.05) / 0.05 >= 1.05 / (bright + 0.05) else "white"
