"""The examples of training events, as `golden_events` has those of all others."""

from eventlog.events import (
    BlobStored,
    CandidateChecked,
    CandidateRepaired,
    CommitMade,
    EpochStarted,
    EvaluationAttemptJudged,
    EvaluationFinished,
    EvaluationStarted,
    Event,
    EvolverReturned,
    EvolverStarted,
    FileEntry,
    FinalSelected,
    HistoryStored,
    Issue,
    LearnerUsage,
    RolloutFinished,
    RolloutJudged,
    RolloutStarted,
    StepCommitted,
    StepStarted,
)

SHA, PARENT = "ab" * 20, "cd" * 20
FILE = FileEntry(path="ADAPTER.md", digest=bytes(range(32)), size_bytes=7)
TOOL = FileEntry(path="tools/run.sh", digest=bytes(range(32, 64)), size_bytes=2**33, executable=True)
COMMIT = CommitMade(sha=SHA, parent=PARENT, message="step 1\n", time_s=1_764_460_800, files=[FILE, TOOL])
ROLLOUT = "step:1/task:a"

TRAINING: dict[str, Event] = {
    "BlobStored 1": BlobStored(digest=bytes(range(32)), data=b"content"),
    "HistoryStored 1": HistoryStored(
        head=SHA,
        root=PARENT,
        objects=[("blob", b"content"), ("tree", b"\x00\xff"), ("commit", b"tree ab\n")],
        complete=True,
        files=[FILE],
        root_files=[],
    ),
    "EpochStarted 1": EpochStarted(epoch=1, tasks=["b", "a"]),
    "StepStarted 1": StepStarted(step=1, epoch=1, tasks=["b"], parent=PARENT, rows=[bytes(range(32))]),
    "RolloutStarted 1": RolloutStarted(unit=ROLLOUT, attempt=2, task="a", adapter=PARENT, carried=True),
    "RolloutFinished 1": RolloutFinished(
        unit=ROLLOUT,
        attempt=1,
        status="error",
        output=None,
        error_class="ValueError",
        message="no",
        traceback="Traceback …",
        cost_nano_usd=100_000_000,
        tokens=None,
        wall_ms=12,
        files=[FILE],
        messages=b"[]",
        extra=b'{"a":1}',
    ),
    "RolloutJudged 1": RolloutJudged(
        unit=ROLLOUT, attempt=1, score=0.5, feedback="half", extra=None, error=None, wall_ms=3
    ),
    "EvolverStarted 1": EvolverStarted(unit="step:1/learner", attempt=1, call="step", step=1, carried=False),
    "EvolverReturned 1": EvolverReturned(
        unit="step:1/learner",
        attempt=1,
        call="step",
        step=1,
        status="done",
        summary="better",
        rationale="because",
        session=None,
        usage=[
            LearnerUsage(
                model="m",
                input_tokens=10,
                cached_input_tokens=None,
                output_tokens=5,
                calls=1,
                cost_nano_usd=None,
            )
        ],
        extra=None,
        error=None,
        wall_ms=900,
        adapter=[FILE, TOOL],
        state=[],
        output=None,
    ),
    "CandidateChecked 1": CandidateChecked(
        step=1,
        passed=False,
        issues=[Issue(path="x", check=2, problem="neither learnable nor fixed")],
        after_repair=False,
    ),
    "CandidateRepaired 1": CandidateRepaired(step=1, path="x", restored_from="parent", reason="check 2"),
    "StepCommitted 1": StepCommitted(
        step=1,
        epoch=1,
        status="done",
        note=None,
        parent=PARENT,
        commits=[COMMIT],
        state=[FILE],
        session="handle",
        tags=["ckpt-step-1"],
        active_ns=10**9,
    ),
    "FinalSelected 1": FinalSelected(
        step=1,
        chosen=SHA,
        how="best",
        score=1.0,
        finalize=None,
        stop_reason="completed all epochs",
        commit=COMMIT,
        tag="r/final",
    ),
    "EvaluationStarted 1": EvaluationStarted(
        number=1, selector="final", commit=SHA, files=None, tasks=["c"], repeats=2
    ),
    "EvaluationAttemptJudged 1": EvaluationAttemptJudged(
        number=1,
        repeat=2,
        task="c",
        unit="eval:final/1/task:c.2",
        attempt=1,
        score=None,
        feedback=None,
        extra=None,
        error="it hung",
    ),
    "EvaluationFinished 1": EvaluationFinished(number=1),
}
