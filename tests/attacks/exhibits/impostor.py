"""A thing that says of itself that it is a figure, and writes a page.

sentence: UnidentifiedImageError
"""


class Figure:
    def get_size_inches(self):
        return 4, 3

    def savefig(self, target, **_):
        target.write(b"<script>window.hacked = 1</script>")


Figure()
