"""Tests of the grader itself: known answers, judged under many seeds and behind forgeries."""
