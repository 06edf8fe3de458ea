"""An MCP server of the mcp package, over stdio: `python mcp_stand.py [JOURNAL]`, which notes each start."""

import os
import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer
from mcp_types import CallToolResult, ImageContent, TextContent, ToolAnnotations

server = MCPServer("stand")
READS = ToolAnnotations(read_only_hint=True)


@server.tool(annotations=READS)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool(annotations=ToolAnnotations(idempotent_hint=True))
def put(text: str) -> str:
    """Write a line into the journal; doing it again does no harm."""
    journal(f"put {text}")
    return "done"


@server.tool()
def take(text: str) -> str:
    """Write a line into the journal."""
    journal(f"take {text}")
    return "taken"


@server.tool()
def parts() -> CallToolResult:
    """Give back several parts."""
    image = ImageContent(type="image", data="AAAA", mime_type="image/png")
    return CallToolResult(
        content=[TextContent(type="text", text="one"), image, TextContent(type="text", text="two")]
    )


@server.tool()
def fail() -> CallToolResult:
    """Fail."""
    return CallToolResult(content=[TextContent(type="text", text="no luck")], is_error=True)


@server.tool(name="read.page")
def read_page(page: str) -> str:
    """Have a name with a letter that endpoints refuse."""
    return f"content of {page}"


def journal(line: str) -> None:
    """Write a line where the test looks."""
    if len(sys.argv) > 1:
        with Path(sys.argv[1]).open("a") as file:
            file.write(f"{line}\n")


if __name__ == "__main__":
    journal(f"start {os.getpid()}")
    server.run()
