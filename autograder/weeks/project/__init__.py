"""The final project: everything on its page is graded by hand, with a rubric."""
