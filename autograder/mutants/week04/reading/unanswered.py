"""Wrong: nothing answered."""

reading_answers = {
    "ranks_of_the_backward": None,
    "records": None,
    "order": None,
}
