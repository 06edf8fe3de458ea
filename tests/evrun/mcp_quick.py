"""An MCP server of the standard library alone, which starts at once: `python mcp_quick.py [JOURNAL]`.

It speaks what every client has to understand: initialize, tools/list, tools/call. Each start is a line of the
journal. (mcp_stand.py is a server of the mcp package itself, which takes seconds to load.)
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

TOOLS = {
    "add": {"a": "integer", "b": "integer"},
    "take": {"text": "string"},
    "environment": {},
    "die": {},
    "hang": {},
    "have_a_child": {},
}


def use(name: str, arguments: dict) -> str:
    """What a tool gives back."""
    if name == "die":
        os._exit(3)
    if name == "hang":
        time.sleep(100_000)
    if name == "have_a_child":
        subprocess.Popen(["sleep", "617"], start_new_session=True)
    if name == "environment":
        return "\n".join(f"{name}={value}" for name, value in sorted(os.environ.items()))
    if name == "take":
        journal(f"take {arguments['text']}")
    return str(arguments["a"] + arguments["b"]) if name == "add" else "done"


def answer(method: str, params: dict) -> dict | None:
    """The result of a request; null where the method is unknown."""
    if method == "initialize":
        server = {"name": "quick", "version": "1"}
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": server,
        }
    if method == "tools/list":
        return {"tools": [described(name, wanted) for name, wanted in TOOLS.items()]}
    if method == "tools/call":
        text = use(params["name"], params.get("arguments") or {})
        return {"content": [{"type": "text", "text": text}]}
    return {} if method == "ping" else None


def described(name: str, wanted: dict) -> dict:
    """A tool as it is listed."""
    properties = {key: {"type": kind} for key, kind in wanted.items()}
    schema = {"type": "object", "properties": properties, "required": list(wanted)}
    return {"name": name, "description": f"It is called {name}.", "inputSchema": schema}


def journal(line: str) -> None:
    """Write a line where the test looks."""
    if len(sys.argv) > 1:
        with Path(sys.argv[1]).open("a") as file:
            file.write(f"{line}\n")


if __name__ == "__main__":
    journal("start")
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked or "method" not in asked:
            continue
        result = answer(asked["method"], asked.get("params") or {})
        said = {"error": {"code": -32601, "message": "unknown"}} if result is None else {"result": result}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}) + "\n")
        sys.stdout.flush()
