"""What ``evrun status``, and the last line of ``evrun run`` and ``evrun train``, say about a run."""

from collections.abc import Mapping
from typing import Any

from .batch import BatchState
from .conversation import Attempt
from .money import usd
from .state import RunState
from .times import rfc3339
from .training_report import evaluations_report, missing_scores, step_report, training_counts
from .units import WITHDRAWN

# The counts that every report shows; `withdrawn` is shown where there are some.
COUNTED = ("total", "kept", "discarded", "failed", "open", "pending")


def result_report(
    state: RunState,
    *,
    run: str,
    dir: str,  # noqa: A002 (the name that scripts read)
    state_name: str,
    exit_code: int | None,
    reason: str | None,
    chain: str,
    live: bool = False,
) -> dict[str, Any]:
    """The one object of ``evrun run --json``: how the run stands, in counts and money.

    `chain` is the hex of the log's chain at the state's sequence. `live`: a process holds the run, as for the
    audit.
    """
    total = state.ledger.total
    return {
        "run": run,
        "dir": dir,
        "state": state_name,
        "exit_code": exit_code,
        "counts": counts_of_run(state),
        "reason": reason,
        "settled_usd": usd(total.settled_nano_usd),
        "in_doubt_usd": total.in_doubt_usd(live=live),
        "reserved_usd": total.reserved_usd(live=live),
        "sequence": state.sequence,
        "chain": chain,
    }


def status_report(
    state: RunState,
    *,
    run: str,
    dir: str,  # noqa: A002 (the name that scripts read)
    holder: Mapping[str, str] | None,
    chain: str,
) -> dict[str, Any]:
    """What ``evrun status --json`` prints; `holder` is what the run's holder says, if a process holds it."""
    name, reason = state_name(state.batch, held=holder is not None)
    report = result_report(
        state, run=run, dir=dir, state_name=name, exit_code=_exit_code(state, name), reason=reason,
        chain=chain, live=holder is not None,
    )  # fmt: skip
    report["session"] = _session(state.batch)
    if state.is_training:
        report["open"] = [_open(attempt) for attempt in state.training.open.values()]
        report["step"] = step_report(state)
        report["evaluations"] = evaluations_report(state.training)
        return report
    report["open"] = [_open(attempt) for attempt in state.batch.open.values()]
    report["batches"] = batches(state.batch)
    report["plan_complete"] = state.batch.plan_complete
    return report


def counts_of_run(state: RunState) -> dict[str, Any]:
    """Units by outcome; of a training run what is counted there."""
    return training_counts(state) if state.is_training else counts_of(state.batch)


def counts_of(batch: BatchState) -> dict[str, int]:
    """Units by outcome; `total` is the sum of the others but `withdrawn`, which is there if it is not 0."""
    counts = {name: batch.counts[name] for name in COUNTED}
    if batch.counts[WITHDRAWN]:
        counts[WITHDRAWN] = batch.counts[WITHDRAWN]
    return counts


def state_name(batch: BatchState, *, held: bool) -> tuple[str, str | None]:
    """The state's name (running, done, paused, interrupted, failed), and why, if that is known."""
    if held:
        return "running", None
    if batch.finished_ns is not None:
        return "done", None
    session = batch.sessions[-1] if batch.sessions else None
    if session is None or session.reason is None:
        return "interrupted", "the process ended without closing the run; nothing is lost"
    name = "done" if session.reason == "finished" else session.reason
    return name, session.detail


def batches(batch: BatchState) -> dict[str, int]:
    """How many batches there are, and of how many all units have ended."""
    total, done = batch.units.batches()
    return {"total": total, "done": done}


def _exit_code(state: RunState, name: str) -> int | None:
    if name == "done":
        failed = missing_scores(state.training) if state.is_training else state.batch.counts["failed"]
        return 3 if failed else 0
    # Which signal ended an interrupted run is not recorded.
    return {"paused": 4, "failed": 1}.get(name)


def _session(batch: BatchState) -> dict[str, Any] | None:
    if not batch.sessions:
        return None
    session = batch.sessions[-1]
    started_at = rfc3339(session.first_ns)
    return {"number": session.number, "pid": session.pid, "host": session.host, "started_at": started_at}


def _open(attempt: Attempt) -> dict[str, Any]:
    return {
        "unit": attempt.unit,
        "attempt": attempt.attempt,
        "started_at": rfc3339(attempt.started_ns),
        "calls": attempt.api_calls,
        "settled_usd": usd(attempt.settled_nano_usd),
    }
