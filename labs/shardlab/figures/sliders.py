"""Sliders around a function that prints and draws."""

import base64

from IPython.utils.capture import RichOutput, capture_output
from ipywidgets import interactive


class _Sliders(interactive):
    """ipywidgets' own, but what the function puts out is collected here, and travels as the widget's state.

    Left to the other side, nbclient (`jupyter execute`) sends a message back for every output. When the cell's reply
    arrives during such a send, nbclient does not notice it, and waits for it for ever.
    """

    def update(self, *_: object) -> None:
        """Call the function with the sliders' values. What it displays stands above what it prints."""
        self.kwargs = {widget._kwarg: widget.get_interact_value() for widget in self.kwargs_widgets}
        with capture_output() as said:
            self.f(**self.kwargs)
        shown = [_displayed(output) for output in said.outputs]
        printed = [{"output_type": "stream", "name": "stdout", "text": said.stdout}] if said.stdout else []
        self.out.outputs = (*shown, *printed)


def _displayed(output: RichOutput) -> dict:
    """What was displayed as a notebook's file has it: pictures as base64."""
    data = {k: base64.b64encode(v).decode() if isinstance(v, bytes) else v for k, v in output.data.items()}
    return {"output_type": "display_data", "data": data, "metadata": output.metadata or {}}


interact = _Sliders.factory()
