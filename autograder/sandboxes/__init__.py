"""Start and end the places where student code runs."""
