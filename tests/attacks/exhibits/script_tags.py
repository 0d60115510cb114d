"""Prints markup, and shows objects that call themselves HTML, JavaScript and SVG.

sentence: -
"""


class Page:
    def _repr_html_(self):
        return "<script>window.hacked = 1</script>"

    def _repr_javascript_(self):
        return "window.hacked = 1"

    def _repr_svg_(self):
        return "<svg onload='window.hacked = 1'></svg>"

    def _repr_mimebundle_(self, **_):
        return {"text/html": "<script>window.hacked = 1</script>"}


print(
    "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>\x1b]8;;javascript:window.hacked=1\x07link"
)
display(Page())
Page()
