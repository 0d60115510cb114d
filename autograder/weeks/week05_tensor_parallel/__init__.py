"""Week 5: tensor parallelism; one file per exercise."""
