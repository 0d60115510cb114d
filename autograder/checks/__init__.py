"""Building blocks of checks: cases, randomly drawn inputs, references and feedback. Exercises are in `weeks/`."""
