"""The templates that come with evrun."""

from typing import Final

PROMPT_ONLY: Final = {
    "adapter.yaml": """\
# An adapter that is one text: what an agent is told before its task.
template:
  id: prompt-only
  version: "1.0"
  name: Instructions alone
exports:
  context: ADAPTER.md
structure:
  learnable:
    - path: ADAPTER.md
      format:
        text: true
        max_bytes: 40000
  fixed: []
""",
    "ADAPTER.md": """\
# Instructions

Do what the task asks.
""",
}

BUILT_IN: Final = {("prompt-only", "1.0"): PROMPT_ONLY}
"""The files of each by id and version; the last version of an id is what the id alone means."""
