"""A run as Python reads it: events, state, rows and accounts, from what is durable at each look."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from eventlog.events import Event, Recorded
from eventlog.storage import LogReader, Verdict, lock_holder, verify
from projections import (
    FileCheck,
    RunState,
    Snapshots,
    audit_report,
    check,
    find_units,
    fold_from_snapshot,
    fold_log,
    rebuild,
    recorded,
    statistics,
    status_report,
    transcript,
)

from ..errors import UsageFault

Outcome = Literal["kept", "discarded", "failed"]
_FILES = {"kept": "trajectories.jsonl", "discarded": "discarded.jsonl", "failed": "failed.jsonl"}


class Run:
    """A run in a directory, which may be going on; reading takes no lock and changes nothing.

    Every look reads the log again, as far as it is durable then.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __repr__(self) -> str:
        return f"Run({str(self.directory)!r})"

    @property
    def name(self) -> str:
        """The run's name."""
        return self.directory.resolve().name

    def events(
        self, kind: type[Event] | None = None, *, from_sequence: int = 1, to_sequence: int | None = None
    ) -> Iterator[Recorded]:
        """The durable events, oldest first, those of one type where `kind` is given.

        Each is ``(sequence, time_ns, session, event)``.
        """
        with closing(self._reader()) as reader:
            for record in recorded(reader, from_sequence, to_sequence):
                if kind is None or isinstance(record.event, kind):
                    yield record

    def state(self, to_sequence: int | None = None) -> RunState:
        """What the events add up to: ``state.batch`` (units, outcomes, settings) and ``state.ledger``."""
        with closing(self._reader()) as reader:
            return fold_log(reader, to_sequence)

    def trajectories(self, outcome: Outcome = "kept") -> Iterator[dict[str, Any]]:
        """The rows of finished prompts, one at a time, made from the log.

        In the order of `trajectories.jsonl`, `discarded.jsonl` or `failed.jsonl`. The files of the run are
        neither read nor written: they may be behind.
        """
        if outcome not in _FILES:
            raise UsageFault(f"trajectories({outcome!r}): expected one of {', '.join(_FILES)}")
        with TemporaryDirectory() as place, closing(self._reader()) as reader:
            rebuild(reader, Path(place), reader.end.sequence)
            file = Path(place) / _FILES[outcome]
            if file.exists():
                with file.open(encoding="utf-8") as lines:
                    for line in lines:
                        yield json.loads(line)

    def status(self) -> dict[str, Any]:
        """What ``evrun status --json`` prints."""
        holder = lock_holder(self.directory / "log")
        with closing(self._reader()) as reader:
            end = reader.end
            state = fold_from_snapshot(reader, Snapshots(self.directory / "log"), end.sequence)
        return status_report(
            state,
            run=state.batch.run or self.name,
            dir=str(self.directory),
            holder=holder,
            chain=end.chain.hex(),
        )

    def stats(self) -> dict[str, Any]:
        """What statistics.json holds, at this moment."""
        return statistics(self.state())

    def audit(self) -> dict[str, Any]:
        """What ``evrun audit --json`` prints: what was spent, to the last digit."""
        live = lock_holder(self.directory / "log") is not None
        state = self.state()
        training = state.training if state.is_training else None
        return audit_report(state.ledger, state.batch, training, run=state.batch.run or self.name, live=live)

    def show(self, unit: str | int, attempt: int | None = None) -> dict[str, Any]:
        """What ``evrun show --json`` prints of a prompt: by its name, the beginning of its id, or its index.

        Raises:
            UsageFault: there is no such unit, or there are several.
        """
        live = lock_holder(self.directory / "log") is not None
        with closing(self._reader()) as reader:
            found = find_units(reader, str(unit))
            if found.matches != 1:
                near = f"did you mean {found.near[0]}?" if found.near else None
                raise UsageFault(f"{unit!r} stands for {found.matches} units of {self.name}", hint=near)
            ((name, planned),) = found.units.items()
            return transcript(reader, name, planned, attempt, live=live)

    def verify(self) -> Verdict:
        """Whether the log is whole: ``.kind`` is "clean" or "torn" then, else what is wrong."""
        return verify(self.directory / "log")

    def replay(self, out: str | Path | None = None) -> list[str]:
        """Make every view again from the log, into the run's directory or another; the names of the files."""
        with closing(self._reader()) as reader:
            return list(
                rebuild(reader, Path(out) if out is not None else self.directory, reader.end.sequence)
            )

    def check(self) -> list[FileCheck]:
        """Compare every view with what the log says; writes nothing."""
        with closing(self._reader()) as reader:
            return list(check(reader, self.directory, reader.end.sequence))

    def _reader(self) -> LogReader:
        return LogReader.open(self.directory / "log")
