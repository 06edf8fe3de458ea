"""One example of every (type, version) of event: what the bytes in `tests/golden/events/` say.

A new event type, or a new version of one, gets an example here and a line there. Lines are never changed:
logs with those bytes are on people's disks. `python -m tests.eventlog.golden_events` prints what is new.
"""

from eventlog.events import (
    AttemptSuperseded,
    BudgetChanged,
    BudgetExhausted,
    BudgetReleased,
    BudgetReserved,
    BudgetSpent,
    Counts,
    Event,
    InputDigest,
    ModelAnswered,
    ModelAsked,
    ModelCallFailed,
    PlannedRow,
    PromptFailed,
    PromptsPlanned,
    PromptStarted,
    PromptsWithdrawn,
    RowsSkipped,
    RunFinished,
    RunStarted,
    SessionClosed,
    SessionOpened,
    SettingsChanged,
    SpendCorrected,
    SpendInDoubt,
    ToolFinished,
    ToolStarted,
    TrajectoryCompleted,
    TrajectoryDiscarded,
    TrajectoryImported,
    TrajectoryJudged,
    TrajectoryRestored,
    Usage,
)
from tests.eventlog.golden_training import TRAINING

UNIT = "prompt:00112233445566778899aabbccddeeff#1.1"
CALL = "s1.c7"
DIGEST16 = bytes(range(16))
DIGEST32 = bytes(range(32))
TOOL = {
    "name": "read_file",
    "description": "Reads a file.",
    "parameters": {"type": "object", "required": ["path"]},
}
COUNTS = Counts(
    api_calls=3,
    turns_with_reasoning=2,
    turns_without_reasoning=1,
    reasoning_tokens=None,
    tools={"read_file": (2, 1, 1)},
)

EXAMPLES: dict[str, Event] = {
    "RunStarted 1": RunStarted(
        kind="batch",
        run="my_first_run",
        settings={
            "batch_size": 10,
            "temperature": 0.5,
            "seed": None,
            "template": "{prompt}",
            "keep_all": True,
        },
        toolsets={"file": [TOOL]},
        versions={"evrun": "0.1.0", "python": "3.11.7"},
        inputs=[
            InputDigest(name="prompts.jsonl", sha256="ab" * 32, size_bytes=4096, path="/tmp/prompts.jsonl")
        ],
    ),
    "SessionOpened 1": SessionOpened(number=1, pid=4242, host="host.example", version="0.1.0"),
    "SessionClosed 1": SessionClosed(number=1, reason="paused", detail="cap usd", active_ns=1_500_000_000),
    "SettingsChanged 1": SettingsChanged(changes={"max_turns": (10, 12), "model": ("a", None)}, toolsets={}),
    "RunFinished 1": RunFinished(counts={"total": 3, "kept": 2, "failed": 1}),
    "PromptsPlanned 1": PromptsPlanned(
        rows=[
            PlannedRow(content=DIGEST16, occurrence=1, index=0, batch=1, row='{"prompt": "é"}'.encode()),
            PlannedRow(DIGEST16, 2, 1, 1, b'{"prompt": "\xed\xa0\x80"}', first_sample=3, samples=2),
        ],
        complete=True,
    ),
    "RowsSkipped 1": RowsSkipped(lines=[(2, "no prompt"), (70_000, "bad JSON")]),
    "PromptsWithdrawn 1": PromptsWithdrawn(units=[UNIT]),
    "PromptStarted 1": PromptStarted(unit=UNIT, attempt=1, toolsets=["file", "terminal"], settings=DIGEST16),
    "ModelAsked 1": ModelAsked(
        call=CALL,
        unit=UNIT,
        attempt=1,
        path="chat/completions",
        base="s1.c1",
        kept=3,
        dropped=["seed"],
        request=b'{"messages":[{"role":"user","content":"\\u00e9"}]}',
    ),
    "ModelAnswered 1": ModelAnswered(
        call=CALL, body=b'{"choices": []}\n', elapsed_ms=1234, request_id="req-1"
    ),
    "ModelCallFailed 1": ModelCallFailed(
        call=CALL,
        error_class="rate_limited",
        message="slow down",
        status=429,
        retryable=True,
        wait_ms=2_000,
        request_id=None,
    ),
    "ToolStarted 1": ToolStarted(UNIT, attempt=1, turn=2, position=0, tool="read_file", arguments=DIGEST16),
    "ToolFinished 1": ToolFinished(
        UNIT, attempt=1, turn=2, position=0, content=b"\xff\x00 as it came", success=False, duration_ms=15
    ),
    "AttemptSuperseded 1": AttemptSuperseded(unit=UNIT, attempt=1, reason="request differs"),
    "TrajectoryCompleted 1": TrajectoryCompleted(
        UNIT, attempt=1, completed=True, partial=False, finish_reason="stop", counts=COUNTS
    ),
    "TrajectoryDiscarded 1": TrajectoryDiscarded(
        UNIT,
        attempt=2,
        completed=False,
        partial=True,
        finish_reason="length",
        counts=COUNTS,
        reason="no_reasoning",
    ),
    "TrajectoryJudged 1": TrajectoryJudged(
        unit=UNIT, attempt=2, score=7.5, feedback="well argued", judge=DIGEST16[:8], call=CALL
    ),
    "TrajectoryRestored 1": TrajectoryRestored(unit=UNIT, kept=True, reason=None, counts=COUNTS),
    "TrajectoryImported 1": TrajectoryImported(
        UNIT,
        attempt=1,
        outcome="discarded",
        reason="no_reasoning",
        counts=COUNTS,
        row='{"prompt_index": 6, "discarded": "no_reasoning", "prompt": "é"}'.encode(),
        source="batch_0.jsonl",
        line=None,
    ),
    "PromptFailed 1": PromptFailed(
        UNIT, attempt=4, error_class="timeout", message="no answer in 120 s", status=None, retryable=True
    ),
    "BudgetReserved 1": BudgetReserved(
        call=CALL,
        unit=UNIT,
        attempt=1,
        role="rollout",
        model="some/model",
        endpoint="127.0.0.1:8000",
        request=DIGEST32,
        bound_nano_usd=1_850_000_000,
        bound_input_tokens=4_096,
        bound_output_tokens=None,
        bound_by="bytes",
    ),
    "BudgetSpent 1": BudgetSpent(
        call=CALL,
        usage=Usage(input_tokens=100, cached_input_tokens=None, output_tokens=50, reasoning_tokens=0),
        cost_nano_usd=123,
        price="genai-prices 0.2.3",
    ),
    "BudgetReleased 1": BudgetReleased(call=CALL, reason="connection refused"),
    "SpendInDoubt 1": SpendInDoubt(call=CALL, reason="timeout", bound_nano_usd=2**40, bound_tokens=None),
    "SpendCorrected 1": SpendCorrected(call=CALL, cost_nano_usd=0, note="not on the invoice"),
    "BudgetChanged 1": BudgetChanged(before={}, now={"usd": 250_000_000}),
    "BudgetExhausted 1": BudgetExhausted(cap="usd", asked=10, left=9),
    **TRAINING,
}
"""`<type> <version>` -> the event as it is read today, in the newest shape of its type."""


def print_new() -> None:
    """Print the golden line of every example that has none yet."""
    import json

    from eventlog.events import encode_event
    from tests.eventlog.test_golden_events import GOLDEN

    for name, event in EXAMPLES.items():
        if name not in GOLDEN and name == f"{type(event).__name__} {type(event).VERSION}":
            print(json.dumps({"event": name, "hex": encode_event(event).hex()}))  # noqa: T201


if __name__ == "__main__":
    print_new()
