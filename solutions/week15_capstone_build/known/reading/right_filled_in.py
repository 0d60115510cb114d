"""Different: a dict literal."""

reading_answers = {
    "waiting": "num_nodes_waiting",
    "counts": False,
    "order": ["dump", "fsync", "rm_file", "rename"],
}
