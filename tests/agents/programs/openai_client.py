"""A program of the official client's, such as anybody writes: it calls one tool until it is done.

It reads its prompt from stdin, and finds all else where the client looks for it, in OPENAI_BASE_URL and
OPENAI_API_KEY.
"""

import json
import os
import sys
from pathlib import Path

from openai import OpenAI

TOOL = {
    "name": "note",
    "description": "Add a line to notes.txt",
    "parameters": {"type": "object", "properties": {"line": {"type": "string"}}, "required": ["line"]},
}


def note(line):
    """Add a line, and say how many there are."""
    path = Path("notes.txt")
    path.write_text((path.read_text() if path.exists() else "") + line + "\n")
    return json.dumps({"lines": len(path.read_text().splitlines())})


def main():
    """Ask, do as told, ask again."""
    Path("notes.txt").unlink(missing_ok=True)
    client = OpenAI()
    messages = [{"role": "user", "content": sys.stdin.read()}]
    tools = [{"type": "function", "function": TOOL}]
    while True:
        asked = {"model": os.environ["OPENAI_MODEL"], "messages": messages, "tools": tools}
        with client.chat.completions.stream(**asked) as stream:
            message = stream.get_final_completion().choices[0].message
        if not message.tool_calls:
            sys.stdout.write(f"{message.content}\n")
            return
        calls = [
            {"id": call.id, "type": "function", "function": call.function.to_dict()}
            for call in message.tool_calls
        ]
        for call in calls:
            call["function"].pop("parsed_arguments", None)
        messages.append({"role": "assistant", "content": message.content, "tool_calls": calls})
        for call in calls:
            said = note(**json.loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": said})


if __name__ == "__main__":
    main()
