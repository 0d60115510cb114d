"""A learner's own trainer: the answers of all weeks as one package, `mine`, with the course's where one is missing."""

PACKAGE = "mine"
