"""Functions that `llm --functions` hands to its model as tools: all that can be called, classes too."""

import pathlib


def write_file(path: str, text: str) -> str:
    """Write a text into a file."""
    return f"{pathlib.Path(path).write_text(text)} characters written"


def read_file(path: str) -> str:
    """Read a file."""
    return pathlib.Path(path).read_text()
