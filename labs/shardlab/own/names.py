"""What the learner's package is called."""

PACKAGE = "mine"
