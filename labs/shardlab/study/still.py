"""Show a static picture instead of a widget when a page is opened without its kernel."""

from __future__ import annotations

import html
import re
import uuid
from typing import Any, TypeVar

Box = TypeVar("Box", bound=Any)  # a widget of ipywidgets that has CSS classes
MARK = "shardlab_still"  # in the metadata of the output


def with_still(box: Box, shown: str) -> Box:
    """Display the widget's current content as a static output of the cell, and return the widget.

    A notebook file does not contain a widget, only a reference to one in the kernel. The static output hides itself
    while the widget is on the page; if the widget cannot be shown, the reader sees its initial content.

    shown: HTML without scripts.
    """
    from IPython.core.getipython import get_ipython
    from IPython.display import display

    if get_ipython() is None:
        return box
    name = uuid.uuid4().hex[:12]
    style = f"<style>body:has(.live-{name}) .still-{name} {{ display: none; }}</style>"
    words = html.unescape(re.sub(r"\s*<[^>]*>\s*", "\n", shown)).strip()
    data = {"text/html": f'{style}<div class="still-{name}">{shown}</div>', "text/plain": words}
    display(data, metadata={MARK: True}, raw=True)
    box.add_class(f"live-{name}")
    return box
