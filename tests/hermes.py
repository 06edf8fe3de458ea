"""Directories as versions of the Hermes batch runner leave them, for tests. All content is our own."""

import json
from pathlib import Path
from typing import Any

TOOLS = ("terminal", "read_file", "write_file")
MODEL = "example/model-1"


def row(index: int, prompt: str, batch: int = 0, **more: Any) -> dict[str, Any]:
    """A trajectory with one tool call and reasoning, as `batch_<n>.jsonl` has it."""
    stats = {name: {"count": 0, "success": 0, "failure": 0} for name in TOOLS}
    stats["terminal"] = {"count": 1, "success": 1, "failure": 0}
    call = json.dumps({"name": "terminal", "arguments": {"command": "wc -l harbour.csv"}})
    result = json.dumps(
        {"tool_call_id": "call_a", "name": "terminal", "content": {"output": "41", "exit_code": 0}}
    )
    return {
        "prompt_index": index,
        "conversations": [
            {"from": "system", "value": "Words about <tools> </tools>.\n<tools>\n[]\n</tools>"},
            {"from": "human", "value": prompt},
            {"from": "gpt", "value": f"<think>\nOne file.\n</think>\n<tool_call>\n{call}\n</tool_call>"},
            {"from": "tool", "value": f"<tool_response>\n{result}\n</tool_response>"},
            {"from": "gpt", "value": f"<think>\n</think>\nIt has 41 lines, says {prompt!r}."},
        ],
        "metadata": {"batch_num": batch, "timestamp": "2031-05-04T09:08:07.000123", "model": MODEL},
        "completed": True,
        "partial": False,
        "api_calls": 2,
        "toolsets_used": ["terminal", "file"],
        "tool_stats": stats,
        "tool_error_counts": dict.fromkeys(TOOLS, 0),
        **more,
    }


def tombstone(index: int, prompt: str) -> dict[str, Any]:
    """What version B leaves of a trajectory without reasoning."""
    return {"prompt_index": index, "discarded": "no_reasoning", "prompt": prompt.strip()}


def line(value: object) -> bytes:
    """A line as Hermes writes it."""
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"


def write(directory: Path, files: dict[str, list[object]], done: list[int] | None = None) -> Path:
    """A directory of these files; a line that is bytes is written as it is. With `done`, a checkpoint too."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, values in files.items():
        lines = [value if isinstance(value, bytes) else line(value) for value in values]
        (directory / name).write_bytes(b"".join(lines))
    if done is not None:
        checkpoint = {"run_name": directory.name, "completed_prompts": done, "batch_stats": {}}
        (directory / "checkpoint.json").write_text(json.dumps(checkpoint))
    return directory


def contents(directory: Path) -> dict[str, bytes]:
    """All files of a directory."""
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}
