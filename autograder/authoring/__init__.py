"""Build the students' notebooks from solutions/."""
