"""Wrong: the cell as it was handed out."""

reading_answers = {"messages": None, "backward_of_copy": None, "order": None}
