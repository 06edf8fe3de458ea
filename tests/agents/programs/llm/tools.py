"""Functions that `llm --functions` hands to its model as tools."""

from pathlib import Path


def write_file(path: str, text: str) -> str:
    """Write a text into a file."""
    return f"{Path(path).write_text(text)} characters written"


def read_file(path: str) -> str:
    """Read a file."""
    return Path(path).read_text()
