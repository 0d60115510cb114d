"""The name of the learner's package."""

PACKAGE = "mine"
