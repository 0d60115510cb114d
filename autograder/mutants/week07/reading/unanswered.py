"""Wrong: the cell as it was handed out."""

reading_answers = {
    "forwards_first": None,
    "divides": None,
    "order": None,
}
