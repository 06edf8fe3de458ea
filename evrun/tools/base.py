"""What a tool is, and what it is given to work with."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from ..effects.containers import Container
from ..effects.secrets import Redactor


class ToolContext(msgspec.Struct, frozen=True):
    """The place and the limits of one tool call.

    `workdir` is the attempt's private directory, which exists; `marker` names the attempt in the environment
    of every process; `timeout_s` is what is left of the attempt's time. Commands run in `container`, where
    the row asks for one.
    """

    workdir: Path
    marker: str
    timeout_s: float
    redactor: Redactor
    container: Container | None = None


Run = Callable[[dict[str, Any], ToolContext], Awaitable[dict[str, Any]]]
"""Arguments that fit the schema, and the context, to a JSON object whose `error` is null or a text."""


Fit = Callable[[dict[str, Any]], dict[str, Any] | str]
"""Arguments as the model gave them to those that a tool takes, or to what is wrong with them."""


class Tool(msgspec.Struct, frozen=True):
    """A tool as the model sees it, and how it is run.

    `parameters` is a JSON schema. `safe_to_repeat`: a call that was cut short may simply be made again.
    `concurrent`: it may run beside others of the same turn, because the order makes no difference. `fit`
    checks the arguments of a tool whose schema says more than those of the built-in tools do.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    run: Run
    safe_to_repeat: bool
    concurrent: bool
    fit: Fit | None = None

    def definition(self) -> dict[str, Any]:
        """What a model is told about the tool."""
        return {"name": self.name, "description": self.description, "parameters": self.parameters}


class Toolset(msgspec.Struct, frozen=True):
    """Tools that are given to an attempt together."""

    name: str
    tools: tuple[Tool, ...]


def parameters(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    """The JSON schema of a tool's arguments: those that must be there, those that may, and no others."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }
