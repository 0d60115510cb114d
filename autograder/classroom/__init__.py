"""A class on one machine, as compose.yaml starts it: JupyterHub, the instructor's desk, and students' accounts."""
