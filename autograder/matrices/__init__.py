"""What proves the grader: known answers judged under many seeds, and behind forgeries."""
