"""Sliders around a function that prints and draws."""

import base64
import html
import traceback

from IPython.core.getipython import get_ipython
from IPython.utils.capture import RichOutput, capture_output
from ipywidgets import interactive

from shardlab.figures.controls import fit_names
from shardlab.study.still import with_still


class _Sliders(interactive):
    """Like ipywidgets' `interactive`, but collects the function's output here and sends it as the widget's state.

    Otherwise nbclient (`jupyter execute`) sends a message back for every output. If the cell's reply arrives during
    such a send, nbclient does not notice it and waits for it forever.
    """

    def update(self, *_: object) -> None:
        """Call the function with the sliders' values; show what it displays, then what it prints, then its error.

        The first call happens in the cell itself, where an error ends the cell.
        """
        first, self._called = not getattr(self, "_called", False), True
        self.kwargs = {widget._kwarg: widget.get_interact_value() for widget in self.kwargs_widgets}
        failed = []
        with capture_output() as said:
            try:
                self.f(**self.kwargs)
            except Exception as error:
                if first:
                    raise
                failed = [_error(error)]
        shown = [_displayed(output) for output in said.outputs]
        printed = [{"output_type": "stream", "name": "stdout", "text": said.stdout}] if said.stdout else []
        self.out.outputs = (*shown, *printed, *failed)
        if first:
            fit_names(self.kwargs_widgets)
            with_still(self, "".join(map(_as_html, self.out.outputs)))


def _displayed(output: RichOutput) -> dict:
    """A displayed output in the format of a notebook file, with pictures in base64."""
    data = {k: base64.b64encode(v).decode() if isinstance(v, bytes) else v for k, v in output.data.items()}
    return {"output_type": "display_data", "data": data, "metadata": output.metadata or {}}


def _as_html(output: dict) -> str:
    """An output as HTML for a page without widgets."""
    data = output.get("data", {})
    if "image/png" in data:
        about = output["metadata"].get("image/png", {})
        size = f' width="{about["width"]}"' if "width" in about else ""
        return f'<img alt="{html.escape(about.get("alt", ""))}"{size} src="data:image/png;base64,{data["image/png"]}">'
    return data.get("text/html") or f"<pre>{html.escape(data.get('text/plain') or output.get('text', ''))}</pre>"


def _error(error: Exception) -> dict:
    """An error output with the traceback that IPython would show."""
    shell = get_ipython()
    lines = (
        shell.InteractiveTB.structured_traceback(type(error), error, error.__traceback__)
        if shell
        else traceback.format_exception(error)
    )
    return {"output_type": "error", "ename": type(error).__name__, "evalue": str(error), "traceback": list(lines)}


interact = _Sliders.factory()
