"""What checks are made of: cases, inputs drawn fresh, references, and sentences; no exercise of the course is here."""
