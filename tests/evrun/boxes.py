"""The built-in tools, opened for tests that use them outside of a run."""

import json

import anyio

from evrun.effects.secrets import Redactor
from evrun.tools import BUILT_IN, Toolbox, ToolContext, parse_arguments, run_tool

BOX = Toolbox(BUILT_IN.values())
find_tool = BOX.find
definitions = BOX.definitions
SECRET = "sk-0123456789abcdef"


def use(tool, directory, *, timeout_s=60.0, container=None, **arguments):
    """Run a tool with arguments as a model would write them; the result, read."""
    checked = parse_arguments(json.dumps(arguments), tool)
    assert isinstance(checked, dict), checked
    context = ToolContext(directory, "test/unit-a1", timeout_s, Redactor({"KEY": SECRET}), container)
    return json.loads(anyio.run(lambda: run_tool(tool, checked, context)))
