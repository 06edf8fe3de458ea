"""What a learner is given, made in its own process from what evrun sent there; and what it gave, as JSON.

Loaded by every learner's process, so it imports nothing of evrun but the names for users.
"""

import json
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from .authoring import Access, Progress, StepContext, StepTool, ToolError, Workspace

FIELDS = ("status", "summary", "rationale", "session", "usage", "extra")


class NotAResult(Exception):
    """What a learner gave back cannot be used, and why."""


class Tool:
    """One of the run's tools, behind the tool endpoint."""

    def __init__(self, url: str, described: Mapping[str, Any]) -> None:
        self.name = str(described["name"])
        self.description = str(described["description"])
        self.source = str(described["source"])
        self.input_schema: dict[str, Any] = described["input_schema"]
        self.output_schema: dict[str, Any] = described["output_schema"]
        self._url = url

    def __call__(self, **arguments: Any) -> dict[str, Any]:
        """Run it.

        Raises:
            ToolError: it could not do what it was asked.
        """
        return _post(self._url, self.name, arguments)


def context_of(order: Mapping[str, Any], cancel: threading.Event) -> StepContext:
    """The context of a call, from what evrun sent."""
    url = order["tool_url"]
    tools: dict[str, StepTool] = {one["name"]: Tool(url, one) for one in order["tools"]}
    return StepContext(
        workspace=msgspec.convert(order["workspace"], Workspace, dec_hook=_path),
        access=msgspec.convert(order["access"], Access, dec_hook=_path),
        progress=msgspec.convert(order["progress"], Progress),
        params=order["params"],
        message=order["message"],
        session=order["session"],
        tools=tools,
        tool_url=url,
        cancel=cancel,
        base=Path(order["base"]),
    )


def told(call: str, given: Any, context: StepContext) -> dict[str, Any]:
    """What a method gave back, as JSON values.

    Raises:
        NotAResult: it is nothing that this call may give.
    """
    if call == "setup":
        return {"status": "done"}
    if call == "finalize":
        return _final(given, context)
    if given is None and call == "bootstrap":
        return {"status": "done"}
    fields = _fields(given)
    if fields is None or "status" not in fields:
        raise NotAResult(f"{call} gave {given!r:.100}; expected a StepResult")
    usage = fields.get("usage")
    return {**fields, "usage": usage if usage is None or isinstance(usage, list | tuple) else [usage]}


def as_json(value: Any) -> bytes:
    """The text of JSON values, with what only looks like one (numbers of numpy, paths) turned into one.

    Raises:
        NotAResult: there is a number in it that JSON does not have, or it refers to itself.
    """
    try:
        return json.dumps(value, allow_nan=False, default=_plain).encode()
    except (ValueError, RecursionError) as error:
        raise NotAResult(f"what it gave cannot be written as JSON: {error}") from None


def _final(given: Any, context: StepContext) -> dict[str, Any]:
    if given is None or isinstance(given, str):
        return {"status": "done", "summary": given or ""}
    if isinstance(given, Mapping) and given.keys() <= {"text", "step"}:
        step = given.get("step")
        if step is not None and (isinstance(step, bool) or not isinstance(step, int)):
            raise NotAResult(f"finalize chose step {step!r:.100}; expected the number of a step")
        extra = None if step is None else {"step": step}
        return {"status": "done", "summary": str(given.get("text") or ""), "extra": extra}
    adapter = getattr(given, "adapter", None)
    if isinstance(adapter, str | Path) and hasattr(given, "summary"):
        _take_over(Path(adapter), context.workspace.adapter)
        return {"status": "done", "summary": str(given.summary), "extra": {"adapter": "chosen"}}
    raise NotAResult(f"finalize gave {given!r:.100}; expected a text, or {{'text': …, 'step': …}}")


def _take_over(chosen: Path, adapter: Path) -> None:
    """Make the chosen directory's files those of the working copy."""
    if not chosen.is_dir():
        raise NotAResult(f"finalize chose the adapter {chosen}, which is no directory")
    if chosen.resolve() == adapter.resolve():
        return
    shutil.rmtree(adapter)
    shutil.copytree(chosen, adapter, symlinks=True)


def _fields(given: Any) -> dict[str, Any] | None:
    if isinstance(given, Mapping):
        unknown = sorted(set(map(str, given)) - {*FIELDS})
        if unknown:
            raise NotAResult(f"it gave {', '.join(unknown)}; a result has {', '.join(FIELDS)}")
        return {str(name): value for name, value in given.items()}
    if isinstance(given, type) or not hasattr(given, "status"):
        return None
    return {name: getattr(given, name) for name in FIELDS if hasattr(given, name)}


def _plain(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return {name: getattr(value, name) for name in value.__struct_fields__}
    if isinstance(value, set | frozenset):
        return sorted(value, key=repr)
    if hasattr(value, "__dataclass_fields__"):
        return {name: getattr(value, name) for name in value.__dataclass_fields__}
    if hasattr(value, "item") and hasattr(value, "dtype"):
        return value.item()
    return str(value)


def _path(kind: type, value: Any) -> Any:
    return Path(value) if issubclass(kind, Path) else value


def _post(url: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    # Half the time that such a process takes to start, and many learners need no tool.
    from http.client import HTTPConnection, HTTPException  # noqa: PLC0415

    place = urlsplit(url)
    assert place.hostname is not None
    connection = HTTPConnection(place.hostname, place.port)
    try:
        connection.request(
            "POST", f"{place.path}/call/{name}", as_json(arguments), {"content-type": "application/json"}
        )
        said = json.loads(connection.getresponse().read())
    except (OSError, HTTPException, ValueError) as error:
        raise ToolError(f"{name}: evrun could not be asked: {error}") from error
    except NotAResult as error:
        raise ToolError(f"{name}: its arguments: {error}") from None
    finally:
        connection.close()
    if "error" in said:
        raise ToolError(str(said["error"]))
    result: dict[str, Any] = said["result"]
    return result
