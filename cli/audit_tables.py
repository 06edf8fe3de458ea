"""An audit as people and spreadsheets read it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from . import output

PROMPT = "prompt"
STEP = "step"
MOST_PROMPTS = 20
"""So many prompts are shown to people who did not say how many."""


class Group(NamedTuple):
    """A grouping: where its rows are in the report, and its columns, each a key and what people call it."""

    rows: str
    columns: dict[str, str]


_SETTLED = {"settled_usd": "settled USD"}
_OPEN = {"in_doubt_usd": "in doubt USD", "reserved_usd": "reserved USD"}
GROUPS = {
    "outcome": Group("by_outcome", {"outcome": "outcome", **_SETTLED}),
    "session": Group("by_session", {"session": "session", "calls": "calls", **_SETTLED, **_OPEN}),
    "model": Group(
        "by_model",
        {"model": "model", "calls": "calls", **_SETTLED, "input_tokens": "input", "output_tokens": "output"},
    ),
    "role": Group("by_role", {"role": "role", "calls": "calls", **_SETTLED}),
    PROMPT: Group(
        "by_prompt",
        {
            "unit": "prompt",
            "prompt_index": "index",
            "outcome": "outcome",
            "attempts": "attempts",
            **_SETTLED,
            "superseded_usd": "of it superseded",
            **_OPEN,
        },
    ),
    STEP: Group(
        "by_step",
        {
            "unit": "part",
            "outcome": "outcome",
            **_SETTLED,
            "superseded_usd": "of it superseded",
            **_OPEN,
        },
    ),
}
"""The groupings by the names that `--by` takes."""


def as_csv(report: dict[str, Any], by: str) -> tuple[list[str], list[list[Any]]]:
    """The header and rows of one grouping: names as in JSON, null as an empty field."""
    keys = list(GROUPS[by].columns)
    return keys, [[row[key] for key in keys] for row in _rows(report, by)]


def _rows(report: dict[str, Any], by: str) -> list[dict[str, Any]]:
    found = report[GROUPS[by].rows]
    if by == "outcome":
        return [{"outcome": name, "settled_usd": amount} for name, amount in found.items()]
    return list(found)


def show(report: dict[str, Any], by: str | None) -> None:
    """The report for people: totals, caps, warnings, parts, doubts, checks."""
    output.facts(totals(report))
    _table([["warning"], *([warning["message"]] for warning in report["warnings"])], "warnings")
    for group in GROUPS if by is None else [by]:
        if GROUPS[group].rows in report:
            columns = GROUPS[group].columns
            rows = [[_cell(row[key]) for key in columns] for row in _rows(report, group)]
            _table([list(columns.values()), *rows], f"by {group}")
    _show_calls(report)
    if len(report["budget_changes"]) > 1:
        changes = [[c["time"], c["sequence"], _limits(c["now"])] for c in report["budget_changes"]]
        _table([["when", "event", "caps from then on"], *changes], "changes of caps")
    checks = [["ok" if c["ok"] else "FAILED", c["name"], c["detail"]] for c in report["checks"]]
    _table([["", "check", "detail"], *checks], "checks")


def _show_calls(report: dict[str, Any]) -> None:
    """The calls that deserve a look, by name."""
    doubts = [[d["call"], d["unit"], d["sent_at"], _cell(d["bound_usd"])] for d in report["in_doubt"]]
    _table([["call", "unit", "sent", "at most USD"], *doubts], "calls in doubt")
    over = [
        [o["call"], o["unit"], *map(_cell, (o["settled_usd"], o["bound_usd"], _used(o), o["bound_tokens"]))]
        for o in report["over_bound"]
    ]
    header = ["call", "unit", "settled USD", "at most USD", "tokens", "at most tokens"]
    _table([header, *over], "calls over their bound")
    corrected = [
        [c["call"], c["unit"], c["settled_usd"], _cell(c["bound_usd"]), " ".join(c["note"].split())]
        for c in report["corrected"]
    ]
    _table([["call", "unit", "settled USD", "at most USD", "note"], *corrected], "calls settled by hand")


def _used(over: dict[str, Any]) -> int:
    return (over["input_tokens"] or 0) + (over["output_tokens"] or 0)


def _table(lines: Sequence[Sequence[object]], title: str) -> None:
    output.table([str(cell) for cell in lines[0]], lines[1:], title=title)


def _cell(value: object) -> object:
    return "unknown" if value is None else value


def _limits(caps: dict[str, Any]) -> str:
    return ", ".join(f"{limit} {_LIMITS.get(cap) or _part(cap)}" for cap, limit in caps.items()) or "none"


def totals(report: dict[str, Any]) -> list[tuple[str, object]]:
    """The sums, in words; what is not known is said to be so."""
    calls, tokens = report["calls"], report["tokens"]
    known = {name: _cell(tokens[name]) for name in ("input", "output", "reasoning")}
    return [
        ("run", f"{report['run']}, up to event {report['sequence']}"),
        ("settled", f"{report['settled_usd']} USD in {calls['settled']} calls"),
        ("in doubt", f"{output.at_most(report['in_doubt_usd'])} in {calls['in_doubt']} calls"),
        ("reserved", f"{output.at_most(report['reserved_usd'])} in {calls['reserved']} calls"),
        *_caps(report),
        ("released", f"{calls['released']} calls, which cost nothing"),
        ("unpriced", f"{calls['unpriced']} calls, whose price or bound is not known"),
        ("tokens", ", ".join(f"{number} {name}" for name, number in known.items())),
    ]


_CAPS = {
    "usd": "cap",
    "tokens": "cap on tokens",
    "calls": "cap on calls",
    "hours": "cap on hours",
    "prompt_usd": "cap per prompt",
    "step_usd": "cap per step",
    "finalize_reserve_usd": "for the end",
}
_LIMITS = {
    "usd": "USD",
    "prompt_usd": "USD a prompt",
    "hours": "seconds",
    "step_usd": "USD a step",
    "finalize_reserve_usd": "USD for the end",
}


def _part(cap: str) -> str:
    """A cap that has no name of its own: one on a role of a training run."""
    return f"the {cap.removeprefix('role_usd.')}" if cap.startswith("role_usd.") else cap


def _caps(report: dict[str, Any]) -> list[tuple[str, object]]:
    """A line for every cap in force, and one for the cap that the newest session met."""
    lines: list[tuple[str, object]] = [
        (_CAPS.get(cap["cap"]) or f"cap for {_part(cap['cap'])}", cap["says"]) for cap in report["caps"]
    ]
    met = report["exhausted"]
    if met is not None and met["cap"] == "hours":
        lines.append(("paused at", "the end of the time that was given"))
    elif met is not None:
        asked, left = (f"{met[key]} {met['unit']}" for key in ("asked", "left"))
        lines.append(("paused at", f"the next call, which may take {asked}; {left} were left"))
    return lines or [("cap", "none")]
