"""`evrun stats RUN`: the whole run in numbers, and what they advise."""

from typing import Any

from projections import state_name, statistics, usd

from . import output
from .archives import place_of
from .output import JsonFlag
from .reading import Reading, read_run
from .runs import DATA, OutputDirectory, RunArgument, prompts_only

OUTCOMES = ("kept", "discarded", "failed", "open", "pending", "withdrawn")


def stats_command(run: RunArgument, *, output_dir: OutputDirectory = DATA, json: JsonFlag = False) -> int:
    """Show the whole run in numbers, and what they advise.

    Outcomes, failures, tools, reasoning, tokens, cost, time: over all sessions. Made from the log, so also
    while the run goes on and after a crash. `--json` prints what statistics.json holds.
    """
    reading = read_run(run, output_dir)
    prompts_only(
        reading.directory,
        "stats",
        "evrun status and evrun audit --by step tell of it; steps.jsonl has all numbers",
    )
    numbers = statistics(reading.state)
    if json:
        output.as_json(numbers)
    else:
        show(numbers, reading)
    return 0


def show(numbers: dict[str, Any], reading: Reading) -> None:
    """The numbers for people; the advice comes last, where the eye ends."""
    output.facts(_facts(numbers, reading))
    output.table(["outcome", "prompts", "settled USD"], _outcomes(numbers), title="prompts")
    _counted(numbers["filtered_by_reason"], "reason", "set aside")
    _counted(numbers["failed_by_class"], "class", "failed")
    output.table(
        ["tool", "calls", "succeeded", "failed", "success"],
        [
            (name, tool["count"], tool["success"], tool["failure"], f"{tool['success_rate']:.2f} %")
            for name, tool in numbers["tool_statistics"].items()
        ],
        title="tools",
    )
    output.line("\nadvice")
    for advice in numbers["health"]:
        output.line(f"- {output.printable(advice['message'])} [{advice['code']}]")
    if not numbers["health"]:
        output.line("none: the numbers call for nothing")


def _facts(numbers: dict[str, Any], reading: Reading) -> list[tuple[str, object]]:
    state, reason = state_name(reading.state.batch, held=reading.holder is not None)
    return [
        ("run", f"{reading.name} in {place_of(reading.directory)}"),
        ("state", state if reason is None else f"{state}: {reason}"),
        ("model", _known(numbers["model"])),
        ("prompts", f"{numbers['total_prompts']} in {numbers['total_batches']} batches"),
        ("filtered", _filtered(numbers)),
        ("tool calls", f"{numbers['average_tool_calls']:.2f} per kept trajectory"),
        ("reasoning", _reasoning(numbers)),
        *_scores(numbers),
        ("tokens", _tokens(numbers)),
        *_money(reading),
        ("time", f"{numbers['active_seconds']:.1f} s of work in {numbers['sessions']} sessions"),
        ("began", _known(numbers["started_at"])),
        ("completed", numbers["completed_at"] or "not yet"),
        *_rarely(numbers),
    ]


def _filtered(numbers: dict[str, Any]) -> str:
    filtered, kept = numbers["prompts_filtered"], numbers["kept"]
    return f"{numbers['filter_rate']:.1%}: {filtered} of {filtered + kept} trajectories were set aside"


def _reasoning(numbers: dict[str, Any]) -> str:
    turns = numbers["reasoning_statistics"]
    said = f"in {turns['turns_with_reasoning']} of {turns['total_assistant_turns']} answers"
    if numbers["total_reasoning_tokens"] is None:
        return f"{said}; tokens not reported"
    average = numbers["average_reasoning_tokens"]
    return f"{said}; {numbers['total_reasoning_tokens']} tokens, {average:.1f} per trajectory"


def _scores(numbers: dict[str, Any]) -> list[tuple[str, object]]:
    scores = numbers["scores"]
    if not scores["judged"]:
        return []
    said = f"{scores['mean']:g} on average of {scores['judged']}, from {scores['min']:g} to {scores['max']:g}"
    return [("scores", said)]


def _tokens(numbers: dict[str, Any]) -> str:
    names = {"input_tokens": "input", "cached_input_tokens": "of it cached", "output_tokens": "output"}
    return ", ".join(f"{_known(numbers['usage'][key])} {name}" for key, name in names.items())


def _money(reading: Reading) -> list[tuple[str, object]]:
    """As the audit says it: without a process that works on the run, what was reserved is in doubt."""
    total, live = reading.state.ledger.total, reading.holder is not None
    unpriced = f", {total.unpriced} unpriced" if total.unpriced else ""
    return [
        ("settled", f"{usd(total.settled_nano_usd)} USD in {total.settled_calls} calls{unpriced}"),
        ("in doubt", output.at_most(total.in_doubt_usd(live=live))),
        ("reserved", output.at_most(total.reserved_usd(live=live))),
    ]


def _rarely(numbers: dict[str, Any]) -> list[tuple[str, object]]:
    """What most runs do not have."""
    names = {"rows_skipped": "skipped", "superseded_attempts": "superseded"}
    words = {"rows_skipped": "dataset lines", "superseded_attempts": "attempts, which no longer count"}
    return [(name, f"{numbers[key]} {words[key]}") for key, name in names.items() if numbers[key]]


def _outcomes(numbers: dict[str, Any]) -> list[tuple[object, ...]]:
    counts = {**numbers, "discarded": numbers["prompts_filtered"]}
    money = numbers["cost"]["by_outcome"]
    rows: list[tuple[object, ...]] = [
        (name, counts[name], money.get(name, "0.00")) for name in OUTCOMES if counts[name]
    ]
    unowned = ("superseded", "other")
    return rows + [(name, "-", money[name]) for name in unowned if money.get(name, "0.00") != "0.00"]


def _counted(numbers: dict[str, int], header: str, title: str) -> None:
    rows = sorted(numbers.items(), key=lambda item: (-item[1], item[0]))
    output.table([header, "prompts"], rows, title=title)


def _known(value: object) -> object:
    return "unknown" if value is None else value
