"""Different: one dict, other spellings."""

reading_answers = {
    "default": 3,
    "order": ("self._stop_workers()", "self._initialize_workers()"),
    "not_counted": "healthy",
}
