"""Different: one dict."""

reading_answers = {
    "default": "ALL-GATHER",
    "gradients_sent": 4,
    "order": ["next_buffer", "exchange_buffers", "op", "step"],
}
