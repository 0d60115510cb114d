"""A class on one machine, started by compose.yaml: JupyterHub, the instructor's desk, and students' accounts."""
