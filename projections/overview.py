"""A run in one line: how it stands, what it cost. From the fold, or from views that stand for the log's end.

Views may stand for an earlier moment, so they are believed only where they say that it is the end: the
checkpoint by sequence and chain, which is a digest over all events, the statistics by their sequence.
"""

from typing import Any, NamedTuple

from eventlog.events import Event, SessionClosed, SpendCorrected

from .jsontext import loads_lenient
from .money import usd
from .state import RunState
from .status import counts_of_run, state_name
from .times import rfc3339


class Summary(NamedTuple):
    """How a run stands: its state's name and why, units by outcome, and the money that is settled."""

    state: str
    reason: str | None
    counts: dict[str, Any]
    settled_usd: str


def summary_of(state: RunState, *, held: bool) -> Summary:
    """The summary that the whole log adds up to."""
    name, reason = state_name(state.batch, held=held)
    return Summary(name, reason, counts_of_run(state), usd(state.ledger.total.settled_nano_usd))


def summary_of_views(
    checkpoint: bytes, statistics: bytes, sequence: int, chain: bytes, last: list[Event]
) -> Summary | None:
    """The same from `checkpoint.json`'s first line, `statistics.json`, and the log's `last` few events.

    `sequence` and `chain` are those of the log's end. Null where the files are not those of that moment, or
    do not say how the run stands: then only the whole log does.
    """
    head, numbers = _object(checkpoint.rstrip() + b"]}"), _object(statistics)
    stands = (head.get("sequence"), head.get("chain_sequence"), head.get("chain"), numbers.get("sequence"))
    if stands != (sequence, sequence, chain.hex(), sequence):
        return None
    counts, cost = head.get("counts"), numbers.get("cost")
    if not isinstance(counts, dict) or not isinstance(cost, dict):
        return None
    left, settled = counts.get("open", 0) + counts.get("pending", 0), cost.get("settled_usd")
    closed = _closed(last)
    if closed is None or settled is None:
        return None
    if closed.reason == "finished":
        return None if closed.detail else Summary("done", None, counts, settled)
    # A session that was ended without anything to do leaves a run that may have been done before.
    return Summary(closed.reason, closed.detail, counts, settled) if left else None


def overview(
    directory: str, run: str, kind: str | None, summary: Summary, *, sequence: int, last_ns: int
) -> dict[str, Any]:
    """One run as ``evrun list --json`` has it."""
    return {
        "run": run,
        "dir": directory,
        "kind": kind,
        "state": summary.state,
        "reason": summary.reason,
        "counts": summary.counts,
        "settled_usd": summary.settled_usd,
        "sequence": sequence,
        "last_change": rfc3339(last_ns) if sequence else None,
    }


def unreadable(directory: str, run: str, reason: str) -> dict[str, Any]:
    """The same of a run whose log cannot be read: nothing is known but why."""
    return {
        "run": run,
        "dir": directory,
        "kind": None,
        "state": "unreadable",
        "reason": reason,
        "counts": None,
        "settled_usd": None,
        "sequence": None,
        "last_change": None,
    }


def _closed(last: list[Event]) -> SessionClosed | None:
    """The end of the newest session, if nothing but corrections of the account came after it."""
    kept = [event for event in last if not isinstance(event, SpendCorrected)]
    return kept[-1] if kept and isinstance(kept[-1], SessionClosed) else None


def _object(text: bytes) -> dict[str, Any]:
    try:
        value = loads_lenient(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
