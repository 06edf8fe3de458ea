"""An agent so simple that its every answer can be foretold: it says the prompt again, in lower case.

It obeys one instruction, if its adapter has it. A real agent would be a model that reads ADAPTER.md.
"""

from pathlib import Path
from typing import Any

RULE = "Output format: uppercase."


def run(task: dict[str, Any], adapter: Path | None) -> str:
    """Do one task with the adapter in this directory, or with none."""
    instructions = "" if adapter is None else (adapter / "ADAPTER.md").read_text("utf-8")
    prompt = str(task["prompt"])
    return prompt.upper() if RULE in instructions else prompt.lower()
