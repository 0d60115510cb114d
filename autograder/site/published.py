"""What a site needs only when it has an address: absolute links for search engines, a sitemap, a social card.

The pages link to each other with relative links, so a site works below any path, such as `/course/` on GitHub Pages.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from urllib.parse import quote, urlsplit

from autograder.site.pages import Page

CARD = "card.png"
CARD_INCHES = (7.5, 3.9375)  # 1200 x 630 pixels, the size that social networks show whole
HEADLINE = "Distributed Training\nand Hybrid Parallelism"
DESCRIPTION = (
    "Build a distributed trainer from scratch, one piece per week, on real processes, "
    "and compare every byte it sends with a formula. No GPU needed."
)


def base_of(url: str) -> str:
    """Return a site's address with a slash at its end; "" for a site without one.

    Raises ValueError for anything but the address of a folder.
    """
    parts = urlsplit(url)
    if url and (parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment):
        raise ValueError(f"{url!r} is not the address of a site: give one like https://example.org/course/")
    return url and url.rstrip("/") + "/"


def absolute(base: str, address: str) -> str:
    """Return a page's absolute address; that of the first page is the site's own, and "" if there is none."""
    return base and base + quote("" if address == "index.html" else address)


def sitemap(pages: Iterable[Page], base: str) -> str:
    """Return sitemap.xml: every page except source files, which have their own place in a repository."""
    entries = (f"<url><loc>{escape(absolute(base, page.address))}</loc></url>" for page in pages if page.kind != "file")
    lines = (*entries, "</urlset>", "")
    return "\n".join(
        (
            '<?xml version="1.0" encoding="UTF-8"?>',
            '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">',
            *lines,
        )
    )


def card() -> bytes:
    """Draw the picture that links to the site show: DualPipe's timeline under the course's name, as PNG."""
    from shardlab.figures.page import new_axes, png
    from shardlab.figures.timeline import draw_timeline
    from shardlab.pipeline_parallel import builders

    figure, ax = new_axes(*CARD_INCHES)
    figure.set_layout_engine("constrained", w_pad=0.15, h_pad=0.12)
    draw_timeline(ax, builders.dualpipe(4, 10), name="DualPipe")
    figure.suptitle(HEADLINE, x=0.03, ha="left", fontsize=22, fontweight="bold")
    figure.text(0.97, 0.92, "SYS-602", ha="right", va="top", fontsize=13, color="#4D4D4D")
    return png(figure)
