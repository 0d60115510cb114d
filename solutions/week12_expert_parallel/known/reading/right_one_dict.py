"""Different: one dict."""

reading_answers = {
    "kept": "input_split_sizes",
    "scatters": 4,
    "order": ["preprocess", "dispatch", "routed_experts_compute", "combine"],
}
