"""Progress of a run: one live line on a terminal, a plain line every few seconds elsewhere. All on stderr."""

import sys
from collections.abc import Callable
from typing import Self

from eventlog.events import Recorded
from evrun.effects import monotonic
from projections import REMEDIES, EventLister, RunState, usd

from . import output

PLAIN_INTERVAL_S = 5.0
FIRST_FINISHED = 5
"""After so many finished prompts, all set aside for one reason, that is said at once."""


class Telling:
    """What a session says to a person: above a live line where there is one."""

    def __init__(self, *, live: bool) -> None:
        self._live = output.LiveLine() if live and sys.stderr.isatty() else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.end()

    def note(self, text: str) -> None:
        """Say one thing, once."""
        (output if self._live is None else self._live).note(text)


class Progress(Telling):
    """What a person sees of a session while it works."""

    def __init__(self, quiet: bool, preview: int | None) -> None:  # noqa: FBT001 (as typed)
        super().__init__(live=not quiet and preview is None)
        self._quiet = quiet
        self._lister = EventLister() if preview is not None else None
        self._preview = preview or 0
        self._began: float | None = None
        self._shown = 0.0
        self._finished_before = 0
        self._advised = False

    @property
    def see(self) -> Callable[[Recorded], None] | None:
        """Shows each event, where that was asked for."""
        return None if self._lister is None else self._see

    def progress(self, state: RunState) -> None:
        """Show how far the run is."""
        now = monotonic()
        finished = _finished(state)
        if self._began is None:
            self._began, self._finished_before = now, finished
        self._advise(state, finished)
        if self._quiet or (self._live is None and now - self._shown < PLAIN_INTERVAL_S):
            return
        self._shown = now
        line = _line(state, finished - self._finished_before, now - self._began)
        if self._live is None:
            output.note(line)
        else:
            self._live.show(line)

    def _see(self, record: Recorded) -> None:
        assert self._lister is not None
        shown = self._lister.apply(record)
        data = str(shown["data"])
        cut = data[: self._preview] + ("…" if len(data) > self._preview else "")
        output.note(f"{shown['seq']} {shown['type']} {shown['unit'] or ''} {cut}")

    def _advise(self, state: RunState, finished: int) -> None:
        counts = state.batch.counts
        if self._advised or not finished or finished < min(FIRST_FINISHED, counts["total"]):
            return
        self._advised = True
        reasons = [name for name, count in state.batch.filtered_by_reason.items() if count]
        if counts["discarded"] == finished and len(reasons) == 1 and reasons[0] in REMEDIES:
            found, option = REMEDIES[reasons[0]]
            first = (
                "the only prompt was" if counts["total"] == 1 else f"the first {finished} prompts were all"
            )
            self.note(f"{first} set aside: {found}; {option} keeps them, without a call")


def _finished(state: RunState) -> int:
    counts = state.batch.counts
    return counts["kept"] + counts["discarded"] + counts["failed"]


def _line(state: RunState, finished: int, seconds: float) -> str:
    counts = state.batch.counts
    left = counts["open"] + counts["pending"]
    rate = finished / seconds if seconds > 0 else 0.0
    parts = [f"{counts['kept']} kept"]
    parts += [f"{counts[name]} {name}" for name in ("discarded", "failed") if counts[name]]
    parts += [f"{counts['open']} in flight", f"{left} left", f"{rate:.1f}/s"]
    if rate:
        parts.append(f"{_duration(left / rate)} to go")
    parts.append(f"{usd(state.ledger.total.settled_nano_usd)} USD")
    return ", ".join(parts)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
