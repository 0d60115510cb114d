"""What a verdict rests on, the same verdict reached again, and answers that are suspiciously alike."""
