"""`evrun show RUN UNIT`: one prompt from beginning to end, to be read."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from eventlog.storage import LogReader, lock_holder
from evrun.errors import UsageFault
from projections import Lookup, find_units, loads_lenient, transcript

from . import output
from .archives import find_readable, place_of
from .output import JsonFlag
from .runs import DATA, OutputDirectory, RunArgument, log_of, prompts_only

UnitArgument = Annotated[
    str,
    typer.Argument(
        metavar="UNIT",
        help="Which prompt: its prompt_index (17; 17.2 for its second sample), the beginning of its "
        "content id (80c9), or a unit's name (prompt:80c9…#1.1).",
    ),
]
AttemptNumber = Annotated[
    int | None, typer.Option("--attempt", min=1, metavar="N", help="Which attempt.  [the newest]")
]


def show_command(
    run: RunArgument,
    unit: UnitArgument,
    *,
    attempt: AttemptNumber = None,
    output_dir: OutputDirectory = DATA,
    json: JsonFlag = False,
) -> int:
    """Show one prompt from beginning to end: what was asked, what the model thought, said and called.

    Also what its tools gave back, how it ended, and what it cost; whole, nothing is cut off. Works for open,
    failed, discarded and superseded attempts, while the run goes on and after a crash. Changes nothing.
    """
    directory = find_readable(run, output_dir)
    prompts_only(directory, "show", "its rollouts are told in learning_material/step_NNNN/tasks/ID.json")
    live = lock_holder(log_of(directory)) is not None
    with LogReader.open(log_of(directory)) as reader:
        found = find_units(reader, unit)
        name = the_one(found, unit, place_of(directory))
        told = transcript(reader, name, found.units[name], attempt, live=live)
    if attempt is not None and told["attempt"] is None:
        there = ", ".join(str(one["attempt"]) for one in told["attempts"]) or "none yet"
        raise UsageFault(f"--attempt {attempt}: {name} has no such attempt", f"its attempts: {there}")
    if json:
        output.as_json(told)
    else:
        show(told)
    return 0


def the_one(found: Lookup, text: str, directory: str) -> str:
    """The name of the unit that was found.

    Raises:
        UsageFault: there is none, or more than one; the hint names those that are near.
    """
    names = list(found.units)
    if found.matches == 1:
        return names[0]
    if found.matches:
        more = found.matches - len(names)
        shown = ", ".join(names) + (f" and {more} more" if more else "")
        raise UsageFault(f"{text!r} may be {found.matches} prompts of {directory}", f"say which: {shown}")
    if found.highest is None:
        raise UsageFault(f"no prompt {text!r}: {directory} has no prompts yet")
    near = f"; near: {', '.join(found.near)}" if found.near else ""
    raise UsageFault(
        f"no prompt {text!r} among the {found.prompts} of {directory}",
        f"prompt_index goes from 0 to {found.highest}{near}",
    )


def show(told: dict[str, Any]) -> None:
    """The transcript for people: the facts, then the conversation, then how it ended."""
    output.facts(_facts(told))
    for message in told["messages"] + told["judgings"]:
        title, role = _title(message)
        output.section(title, role)
        for name, text in _parts(message):
            output.passage(name, text)
    for title, lines in _end(told):
        output.section(title, "end")
        for line in lines:
            output.passage("", line)


def _facts(told: dict[str, Any]) -> list[tuple[str, object]]:
    one = told["attempt"]
    place = f"{told['prompt_index']} in batch {told['batch']}, sample {told['sample']}"
    facts: list[tuple[str, object]] = [("unit", told["unit"]), ("prompt", place)]
    if told["metadata"]:
        facts += [(f"  {name}", _word(value)) for name, value in told["metadata"].items()]
    if one is None:
        return [*facts, ("state", f"{told['outcome']}: no attempt has begun")]
    return [
        *facts,
        ("attempt", _attempts(told, one)),
        ("state", one["outcome"] if one["reason"] is None else f"{one['outcome']}: {one['reason']}"),
        ("model", _known(one["model"])),
        ("toolsets", ", ".join(one["toolsets"]) or "none"),
        ("began", _began(one)),
        ("ended", _ended(one)),
        ("answers", _answers(one)),
        ("tokens", _tokens(one["usage"])),
        ("cost", _cost(one)),
        *([] if one["imported_from"] is None else [("imported", one["imported_from"])]),
        *([] if one["score"] is None else [("score", f"{one['score']:g}")]),
    ]


def _attempts(told: dict[str, Any], one: dict[str, Any]) -> str:
    others = [
        f"{other['attempt']} {other['outcome']}, {other['settled_usd']} USD"
        for other in told["attempts"]
        if other["attempt"] != one["attempt"]
    ]
    return f"{one['attempt']}" + (f" (others: {'; '.join(others)})" if others else "")


def _began(one: dict[str, Any]) -> str:
    return "never" if one["started_at"] is None else f"{one['started_at']} in session {one['session']}"


def _ended(one: dict[str, Any]) -> str:
    if one["ended_at"] is None:
        return "not yet" if one["outcome"] == "open" else "never"
    return (
        one["ended_at"] if one["duration_s"] is None else f"{one['ended_at']}, after {one['duration_s']:g} s"
    )


def _answers(one: dict[str, Any]) -> str:
    failed = len(one["failed_calls"])
    return f"{one['answers']}" + (f"; {failed} calls gave none that could be used" if failed else "")


def _tokens(usage: dict[str, Any]) -> str:
    names = {"input_tokens": "input", "output_tokens": "output", "reasoning_tokens": "reasoning"}
    return ", ".join(f"{_known(usage[key])} {name}" for key, name in names.items())


def _cost(one: dict[str, Any]) -> str:
    parts = [f"{one['settled_usd']} USD in {one['settled_calls']} calls"]
    if one["unpriced_calls"]:
        parts.append(f"{one['unpriced_calls']} calls without a price")
    return ", ".join(parts)


def _title(message: dict[str, Any]) -> tuple[str, str]:
    role = message["role"]
    if "turn" in message:
        ended = f"{_known(message['finish_reason'])}, {message['elapsed_ms']} ms"
        which = "answer" if role == "judge" else "turn"
        return f"{role}, {which} {message['turn']} ({ended})", role
    if role != "tool" or "name" not in message:
        return role, role
    title = f"tool {message['name']} ({message['tool_call_id']})"
    if message.get("state", "ended") != "ended":
        return f"{title}: {message['state']}", role
    if message.get("success") is None:
        return title, role
    ended = "succeeded" if message["success"] else "failed"
    return f"{title}: {ended} after {message['duration_ms']} ms", role


def _parts(message: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The passages of a message, each with its name; the text itself has none."""
    if message.get("reasoning"):
        yield "reasoning", message["reasoning"]
    content = message["content"]
    if content and message["role"] == "tool":
        yield "", _readable(content)
    elif content:
        yield "", content
    for call in message.get("tool_calls", ()):
        yield f"calls {call['name']} ({call['id']})", _readable(call["arguments"])
    if message.get("problem"):
        yield "not usable", message["problem"]


def _readable(text: str) -> str:
    """The fields of a JSON object a line each, their strings as they are; any other text as it is."""
    try:
        value = loads_lenient(text) if text.lstrip().startswith("{") else None
    except ValueError:
        value = None
    if not isinstance(value, dict):
        return text
    return "\n".join(_field(name, item) for name, item in value.items()) or "{}"


def _field(name: str, value: object) -> str:
    if isinstance(value, str) and "\n" in value.strip("\n"):
        lines = "\n".join(f"  {line}" for line in value.splitlines())
        return f"{name}:\n{lines}"
    return f"{name}: {value.rstrip() if isinstance(value, str) else _word(value)}"


def _word(value: object) -> str:
    return value if isinstance(value, str) else output.json_text(value)


def _end(told: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """How the attempt ended, or what it waits for."""
    one = told["attempt"]
    if one is None:
        return
    failed = [f"{call['call']}: {_failure(call)}" for call in one["failed_calls"]]
    if failed:
        yield "calls without a usable answer", failed
    for name, calls in (("in doubt", one["in_doubt"]), ("under way", one["reserved"])):
        if calls:
            yield f"calls {name}", [_call(call) for call in calls]
    if one["feedback"]:
        yield "feedback", one["feedback"].splitlines()
    if one["error"] is not None:
        yield "failed", [_failure(one["error"])]
    elif one["finish_reason"] is not None:
        flags = [name for name in ("completed", "partial") if one[name]]
        yield (
            one["outcome"],
            [", ".join([one["finish_reason"], *flags]), *([one["reason"]] if one["reason"] else [])],
        )
    elif one["outcome"] == "open":
        yield "open", ["this is all so far; the attempt goes on from here"]


def _failure(error: dict[str, Any]) -> str:
    status = "" if error["status"] is None else f" (HTTP {error['status']})"
    return f"{error['class']}{status}: {error['message']}"


def _call(call: dict[str, Any]) -> str:
    why = "" if call["why"] is None else f", {call['why']}"
    return f"{call['call']}, {call['role']}, sent {call['sent_at']}{why}, {output.at_most(call['bound_usd'])}"


def _known(value: object) -> object:
    return "unknown" if value is None else value
