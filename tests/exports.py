"""A run with everything that rows can hold, and exported rows turned back into rows of the views."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from eventlog.events import (
    Event,
    ModelAnswered,
    PlannedRow,
    PromptsPlanned,
    SessionOpened,
    ToolFinished,
    TrajectoryJudged,
)
from projections import rebuild, unit_name
from tests.projections.histories import (
    LogMaker,
    answered,
    begun,
    discarded,
    failed,
    kept,
    reserve,
    restored,
    spent,
    started,
)

NASTY = 'quotes " and, commas;\r\nlines\rand \u2028 é 😀 \\n \t "" <tools> \x00'
ROWS: list[dict[str, Any]] = [
    {"prompt": "plain", "id": 1},
    {"prompt": NASTY, "tags": ["a", 2, None], "deep": {"x": {"y": 1.5}}, "metadata": {"source": NASTY}},
    {"prompt": "three", "id": "a text here", "tags": {"an": "object"}},
    {"prompt": "four"},
    {"prompt": "five", "image": None, "n": 2**53},
    {"prompt": "six", "id": [1, [2, [3]]]},
]
PICTURE = {
    "messages": [
        {"role": "system", "content": "Look well."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is this?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            ],
        },
    ]
}
"""A row whose message has a part that is no text."""
SAMPLES = 2


def unit_of(index: int, sample: int = 1) -> str:
    """The name of a row's unit."""
    return unit_name(_content(index), 1, sample)


def story() -> list[list[Event]]:
    """Commits of a run of `ROWS`, two samples each, two rows a batch, in which everything happens.

    Prompts end in another order than planned; one failed and was kept when it was retried; one was set aside
    and kept after all; one is set aside, one failed, and the last sample is never begun.
    """
    commits: list[list[Event]] = [[SessionOpened(1, 1, "host", "0"), started("rich"), _plan()]]
    for index in (5, 0, 3):
        commits += _worked(index, 1, NASTY if index == 3 else f"answer {index}")
    commits += [[begun(unit_of(1)), reserve("f1", unit_of(1))], [failed(unit_of(1))]]
    commits += _tooled(2, 1)
    commits += _worked(0, 2, "another", end=discarded)
    commits += _worked(1, 1, "the second time", attempt=2)
    commits += _worked(4, 1, "kept after all", end=discarded)
    commits += [[restored(unit_of(4, 1))]]
    commits += _worked(3, 2, "set aside", end=discarded)
    lost = unit_of(2, 2)
    commits += [[begun(lost), reserve("f2", lost)], [failed(lost, error_class="server")]]
    return commits


def make_run(run: Path, commits: list[list[Event]] | None = None) -> Path:
    """A run directory with this story (the whole one without any) and its views; nobody holds it."""
    run.mkdir(parents=True)
    with LogMaker(run / "log") as maker:
        maker.write(story() if commits is None else commits)
        rebuild(maker.reader(), run)
    return run


def judged(
    index: int, sample: int, score: float | None, end: Any = kept, text: str | None = None
) -> list[list[Event]]:
    """A sample that ended, with what the judge gave it; its answer is its place, if there is no `text`."""
    unit, call = unit_of(index, sample), f"j{index}.{sample}"
    judgement = [] if score is None else [TrajectoryJudged(unit, 1, score, "well", b"judge", None)]
    return [
        [begun(unit), reserve(call, unit)],
        [spent(call), answered(call, text or f"{index}.{sample}", "hm")],
        [*judgement, end(unit)],
    ]


def typed(record: dict[str, str]) -> dict[str, Any]:
    """The values of a CSV record: what was no text in quotes is nothing here but numbers, truth and JSON."""
    numbers = {"prompt_index", "sample", "attempt", "api_calls", "duration_s", "score", "batch_num"}
    numbers.add("unknown_tool_calls")
    nested = {"conversations", "usage", "error", "toolsets_used"}
    truth = {"completed", "partial", "escaped"}
    values: dict[str, Any] = {}
    for name, text in record.items():
        if text == "":
            values[name] = None
        elif name in numbers | nested | truth:
            values[name] = json.loads(text)
        else:
            values[name] = text
    return values


def view_row(exported: dict[str, Any]) -> dict[str, Any]:
    """The row of a view that an exported row says: without what the export adds, JSON text as its value."""
    row = dict(exported)
    outcome = row.pop("outcome")
    for name in ("model", "batch_num", "timestamp"):
        del row[name]
    for name in ("metadata", "tool_stats", "tool_error_counts"):
        row[name] = json.loads(row[name])
    if outcome != "discarded":
        assert row.pop("reason") is None
    if outcome != "failed":
        assert row.pop("error") is None
    return row


def _content(index: int) -> bytes:
    return sha256(ROWS[index]["prompt"].encode()).digest()[:16]


def _plan() -> PromptsPlanned:
    rows = [
        PlannedRow(_content(index), 1, index, 1 + index // 2, json.dumps(row).encode(), samples=SAMPLES)
        for index, row in enumerate(ROWS)
    ]
    return PromptsPlanned(rows, complete=True)


def _worked(index: int, sample: int, text: str, *, attempt: int = 1, end: Any = kept) -> list[list[Event]]:
    unit, call = unit_of(index, sample), f"c{index}.{sample}.{attempt}"
    return [
        [begun(unit, attempt), reserve(call, unit, attempt)],
        [spent(call), answered(call, text, f"hm, {index}")],
        [end(unit, attempt)],
    ]


def _tooled(index: int, sample: int) -> list[list[Event]]:
    """An attempt with tool calls whose arguments and results are of all shapes."""
    unit = unit_of(index, sample)
    arguments = ['{"at": [1, {"b": null}]}', "no JSON", '{"text": "</tool_call>"}']
    results = [b'{"found": {"x": [1]}}', b"", NASTY.encode()]
    calls = [
        {"id": f"t{n}", "type": "function", "function": {"name": "look", "arguments": text}}
        for n, text in enumerate(arguments)
    ]
    choice = {"message": {"content": None, "tool_calls": calls}, "finish_reason": "tool_calls"}
    ended = [ToolFinished(unit, 1, 1, n, content, True, 3) for n, content in enumerate(results)]  # noqa: FBT003
    return [
        [begun(unit), reserve("t1", unit)],
        [spent("t1", None), ModelAnswered("t1", json.dumps({"choices": [choice]}).encode(), 9, None)],
        [*ended],
        [reserve("t2", unit)],
        [spent("t2", 7, 11), answered("t2", "looked", "and thought")],
        [kept(unit, tools=3)],
    ]
