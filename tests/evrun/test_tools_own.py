import threading
from pathlib import Path

import anyio
import pytest

from evrun.effects.foreign import in_a_task, in_daemon_thread
from evrun.errors import UsageFault
from evrun.tools import parse_arguments
from evrun.tools.own import load_tools
from projections import tool_succeeded
from tests.evrun.boxes import SECRET, use

TOOLS = '''
import asyncio, time
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Literal, Optional, TypedDict

import msgspec

from evrun.tools import ToolContext, tool


class Place(TypedDict):
    name: str
    floor: int


@dataclass
class Answer:
    text: str


@tool(safe_to_repeat=True, concurrent=True)
def weather(
    city: str,
    days: int = 1,
    unit: Literal["C", "F"] = "C",
    place: Optional[Place] = None,
    exact: Annotated[float, msgspec.Meta(ge=0, description="How exact.")] = 0.5,
) -> dict:
    """Return the weather
    of a city.

    Args:
        city: Its name,
            as people say it.
        days: So many days.

    Returns:
        Not for the model.
    """
    return {"city": city, "days": days, "unit": unit, "place": place, "exact": exact}


@tool(name="when")
async def _when(day: date, context: ToolContext) -> str:
    """Say a day.

    :param day: Any day.
    :returns: nothing of interest
    """
    await asyncio.sleep(0)
    (context.workdir / "day").write_text(str(day))
    return f"{type(day).__name__} {day.year}"


def plain(numbers: list[float]) -> float:
    """Add up."""
    return sum(numbers)


@tool
def say(what: str) -> object:
    """Give back what was asked for."""
    return {
        "none": None, "list": [1, "a"], "answer": Answer("yes"), "failed": {"error": "no luck"},
        "nan": float("nan"), "secret": "SECRET", "text": "error: not really", "set": object(),
        "long": "SECRET" + "x" * 500_000,
    }[what]


@tool
def leave() -> None:
    """Leave."""
    raise SystemExit(3)


@tool
async def leave_later() -> None:
    """Leave."""
    raise KeyboardInterrupt


@tool
async def cancel() -> None:
    """Cancel oneself."""
    raise asyncio.CancelledError


@tool(timeout_s=0.2)
def sleep() -> None:
    """Never return."""
    time.sleep(100_000)


@tool(timeout_s=0.2)
async def stay() -> None:
    """Never return, once."""
    try:
        await asyncio.sleep(100_000)
    except asyncio.CancelledError:
        await asyncio.sleep(1)


TOOLS = [plain]
'''.replace("SECRET", SECRET)


@pytest.fixture(name="tools")
def _tools(tmp_path):
    """The tools of a file, by name."""
    return {tool.name: tool for tool in loaded(tmp_path, TOOLS).tools}


def loaded(directory, text, name="mine.py"):
    """A file's toolset."""
    path = directory / name
    path.write_text(text)
    return load_tools(path)


def test_a_file_is_a_toolset_named_after_it(tmp_path):
    """With the functions that it marks, in their order, and then those that it lists."""
    toolset = loaded(tmp_path, TOOLS, "my_tools.py")
    assert toolset.name == "my_tools"
    marked = ["weather", "when", "say", "leave", "leave_later", "cancel", "sleep", "stay"]
    assert [tool.name for tool in toolset.tools] == [*marked, "plain"]


def test_the_schema_is_what_the_type_hints_and_the_docstring_say(tools):
    """Defaults, choices, nested objects, descriptions in both styles; a context is nobody's argument."""
    weather = tools["weather"]
    assert weather.description == "Return the weather\nof a city."
    properties = weather.parameters["properties"]
    assert properties["city"] == {"type": "string", "description": "Its name, as people say it."}
    assert properties["days"] == {"type": "integer", "description": "So many days.", "default": 1}
    assert properties["unit"] == {"enum": ["C", "F"], "default": "C"}
    assert properties["exact"] == {
        "type": "number",
        "minimum": 0,
        "description": "How exact.",
        "default": 0.5,
    }
    assert properties["place"]["anyOf"] == [{"$ref": "#/$defs/Place"}, {"type": "null"}]
    assert weather.parameters["$defs"]["Place"]["required"] == ["floor", "name"]
    assert weather.parameters["required"] == ["city"]
    assert weather.parameters["additionalProperties"] is False
    day = {"type": "string", "format": "date", "description": "Any day."}
    assert tools["when"].parameters["properties"] == {"day": day}
    assert (tools["when"].name, tools["when"].description) == ("when", "Say a day.")


def test_only_what_the_decorator_says_is_safe_to_repeat_or_concurrent(tools):
    """Whoever says nothing gets the cautious answer."""
    said = {name: (tool.safe_to_repeat, tool.concurrent) for name, tool in tools.items()}
    assert said.pop("weather") == (True, True)
    assert set(said.values()) == {(False, False)}


def test_arguments_arrive_as_the_hints_say(tools, tmp_path):
    """A date is a date, 2.0 a whole number, null an optional one left out; an async function is awaited."""
    result = use(
        tools["weather"], tmp_path, city="Bern", days=2.0, unit=None, place={"name": "a", "floor": 1}
    )
    place = {"name": "a", "floor": 1}
    assert result == {"city": "Bern", "days": 2, "unit": "C", "place": place, "exact": 0.5}
    assert use(tools["when"], tmp_path, day="2024-02-29") == {"result": "date 2024", "error": None}
    assert (tmp_path / "day").read_text() == "2024-02-29"
    assert use(tools["plain"], tmp_path, numbers=[1, 2.5]) == {"result": 3.5, "error": None}


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("weather", "{}", "missing required field `city`"),
        ("weather", '{"city": 7}', "Expected `str`, got `int` - at `$.city`"),
        ("weather", '{"city": "a", "town": "b"}', "unknown field `town`"),
        ("weather", '{"city": "a", "unit": "K"}', "Invalid enum value 'K'"),
        ("weather", '{"city": "a", "exact": -1}', "Expected `float` >= 0"),
        ("weather", '{"city": "a", "place": {"name": "x"}}', "missing required field `floor`"),
        ("weather", '{"city": "a", "days": 2.5}', "Expected `int`, got `float`"),
        ("when", '{"day": "yesterday"}', "Invalid RFC3339"),
        ("when", '{"day": "2024-01-01", "context": {}}', "unknown field `context`"),
    ],
)
def test_arguments_that_do_not_fit_go_back_to_the_model(tools, name, text, problem):
    """With what is wrong and where; the function is not called."""
    found = parse_arguments(text, tools[name])
    assert isinstance(found, str)
    assert problem in found


@pytest.mark.parametrize(
    ("what", "result", "success"),
    [
        ("none", {"result": None, "error": None}, True),
        ("list", {"result": [1, "a"], "error": None}, True),
        ("answer", {"text": "yes"}, True),
        ("failed", {"error": "no luck"}, False),
        ("nan", {"result": None, "error": None}, True),
        ("text", {"result": "error: not really", "error": None}, True),
    ],
)
def test_an_object_is_the_result_and_all_else_is_in_one(tools, tmp_path, what, result, success):
    """So a function says itself whether it worked: by an `error` in what it gives back."""
    found = use(tools["say"], tmp_path, what=what)
    assert found == result
    assert tool_succeeded(str(found).replace("'", '"').replace("None", "null")) is success


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("say", "KeyError: 'nosuch'"),
        ("leave", "RuntimeError: SystemExit: 3"),
        ("leave_later", "RuntimeError: KeyboardInterrupt: "),
        ("cancel", "RuntimeError: it cancelled itself"),
        ("sleep", "not done within 0.2 s"),
        ("stay", "not done within 0.2 s"),
    ],
)
def test_whatever_a_function_does_is_an_error_of_its_call_alone(tools, tmp_path, name, error):
    """Raising, leaving the process, cancelling itself, never coming back, not even when told to."""
    arguments = {"what": "nosuch"} if name == "say" else {}
    assert use(tools[name], tmp_path, **arguments) == {"error": error}


def test_a_result_that_is_no_json_is_an_error(tools, tmp_path):
    """It names the type."""
    assert "object" in use(tools["say"], tmp_path, what="set")["error"]


def test_a_long_result_is_shown_at_both_ends_and_without_secrets(tools, tmp_path):
    """It would be sent again with every turn."""
    result = use(tools["say"], tmp_path, what="long")
    assert result["truncated"] is True
    assert SECRET not in result["result"]
    assert "[redacted:KEY]" in result["result"]
    assert "bytes left out" in result["result"]
    assert len(result["result"]) < 40_000


def test_what_is_left_of_the_prompts_time_bounds_a_call(tmp_path):
    """Whatever the decorator allows."""
    head = "import time\nfrom evrun.tools import tool\n@tool(timeout_s=900)\n"
    text = f"{head}def f():\n    'x'\n    time.sleep(900)\n"
    (tool,) = loaded(tmp_path, text).tools
    assert use(tool, tmp_path, timeout_s=0.2) == {"error": "not done within 0.2 s"}


NOTHING = "found no tool in it"
HEAD = "from evrun.tools import tool\n@tool\n"


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("x = 1\n", "", NOTHING),
        ("\n\ndef f(:\n", ", line 3", "SyntaxError"),
        ("x = 1\ny = nosuch\n", ", line 2", "NameError: name 'nosuch' is not defined"),
        ("raise SystemExit(0)\n", ", line 1", "SystemExit"),
        ("import nosuchmodule\n", ", line 1", "ModuleNotFoundError"),
        ("TOOLS = 7\n", "", "TOOLS must be a list of functions"),
        ("TOOLS = [len]\n", "", "TOOLS must be a list of functions"),
        (f"{HEAD}def f(x):\n    'doc'\n", ", line 2", "its argument x has no type hint"),
        (f"{HEAD}def f(*x: int):\n    'doc'\n", ", line 2", "cannot be given by name"),
        (f"{HEAD}def f(x: int, /):\n    'doc'\n", ", line 2", "cannot be given by name"),
        (f"{HEAD}def f(x: int): pass\n", ", line 2", "it has no docstring"),
        (f"{HEAD}def f(x: 'Nosuch'):\n    'doc'\n", ", line 2", "its type hints cannot be read"),
        (f"{HEAD}def f(x: complex):\n    'doc'\n", ", line 2", "cannot be said in JSON"),
        ("from evrun.tools import tool\n@tool(name='a b')\ndef f(): 'doc'\n", ", line 2", "its name must be"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_its_line(tmp_path, text, place, problem):
    """And what to do."""
    with pytest.raises(UsageFault) as refused:
        loaded(tmp_path, text)
    assert str(refused.value).startswith(f"--tools {tmp_path}/mine.py{place}")
    assert problem in f"{refused.value}; {refused.value.hint}"
    assert refused.value.hint


@pytest.mark.parametrize("name", ["nosuch.py", "mine.txt", "a b.py"])
def test_a_file_that_is_none_is_refused(tmp_path, name):
    """Its name is to be a toolset's."""
    if name != "nosuch.py":
        (tmp_path / name).write_text(TOOLS)
    with pytest.raises(UsageFault, match="--tools"):
        load_tools(tmp_path / name)


def test_a_file_may_import_its_neighbours_and_be_called_like_a_library(tmp_path):
    """Its own name is no module's, so nobody who imports json gets it."""
    (tmp_path / "a_neighbour_of_mine.py").write_text("value = 7\n")
    text = (
        f"import a_neighbour_of_mine\n{HEAD}def f() -> int:\n    'x'\n    return a_neighbour_of_mine.value\n"
    )
    (tool,) = loaded(tmp_path, text, "json.py").tools
    assert use(tool, tmp_path) == {"result": 7, "error": None}
    import json

    assert Path(json.__file__).parent != tmp_path


def test_hints_as_texts_are_read_too(tmp_path):
    """`from __future__ import annotations` is common."""
    body = "def f(x: int | None = None) -> int:\n    'x'\n    return x\n"
    text = f"from __future__ import annotations\n{HEAD}{body}"
    (tool,) = loaded(tmp_path, text).tools
    assert use(tool, tmp_path, x=3) == {"result": 3, "error": None}


def test_a_thread_that_nobody_waits_for_keeps_nothing_alive():
    """It is a daemon, and what it gives back when all is over harms nobody."""
    go_on = threading.Event()
    before = set(threading.enumerate())

    async def leave_early():
        with anyio.move_on_after(0.05):
            await in_daemon_thread(go_on.wait)
        return set(threading.enumerate()) - before

    (left,) = anyio.run(leave_early)
    assert left.daemon
    go_on.set()
    left.join()


def test_a_thread_that_stops_an_iteration_raises_an_error():
    """A future could not carry it."""

    def stop():
        raise StopIteration

    with pytest.raises(RuntimeError, match="StopIteration"):
        anyio.run(in_daemon_thread, stop)


def test_a_task_is_cancelled_with_who_waits_for_it():
    """An async function that heeds it is gone."""
    seen = []

    async def long():
        try:
            await anyio.sleep_forever()
        finally:
            seen.append("cancelled")

    async def leave_early():
        with anyio.move_on_after(0.05):
            await in_a_task(long)
        await anyio.wait_all_tasks_blocked()

    anyio.run(leave_early)
    assert seen == ["cancelled"]
