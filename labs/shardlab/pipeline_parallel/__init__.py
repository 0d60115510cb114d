"""Pipeline parallelism: a schedule is a value that is built, checked, simulated, drawn, exported and executed."""
