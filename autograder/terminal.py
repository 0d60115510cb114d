"""The terminal that every report is printed to."""

from rich.console import Console

console = Console()
