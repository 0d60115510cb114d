"""Different: puts the names together."""

reading_answers = {
    "order": [name + "p" for name in "tcedp"],
    "fp32_gradients": "grad reduce in fp32",
    "smallest_bucket": 40 * 10**6,
}
