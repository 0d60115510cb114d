"""Different: capital letters and a tuple."""

messages = len(["up"] * 5 + ["down"] * 5)
reading_answers = {
    "messages": messages,
    "backward_of_copy": "all_reduce",
    "order": list(("all_gather", "reduce_scatter")),
}
