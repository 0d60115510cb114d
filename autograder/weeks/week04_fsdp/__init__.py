"""Week 4: gather, use and free weights; the order, bytes, peak memory and precision of this; one file per exercise."""
