"""What is true of any run, of prompts or of training: configuration, sessions, beginning and end."""

from typing import Any

from eventlog.events import (
    BudgetExhausted,
    InputDigest,
    Recorded,
    RunFinished,
    RunStarted,
    SessionClosed,
    SessionOpened,
    SettingsChanged,
)

from .sessions import Session


class RunFacts:
    """The part of a run's state that does not depend on what kind of run it is.

    `settings` and `toolsets` are those in force now, `tools` the names of all that were ever offered.
    `sessions` are those that worked on the run: whoever wrote without a `SessionOpened` (a correction from an
    invoice) only kept the books, and changes nothing about how the run stands. `finished_ns` is null while
    there is work left. `exhausted` is the newest session's exhausted cap, if it met one; `sequence` and
    `last_ns` are the newest record's.
    """

    def __init__(self) -> None:
        self.kind = ""
        self.run = ""
        self.settings: dict[str, Any] = {}
        self.toolsets: dict[str, list[dict[str, Any]]] = {}
        self.tools: set[str] = set()
        self.versions: dict[str, str] = {}
        self.inputs: list[InputDigest] = []
        self.sessions: list[Session] = []
        self.started_ns: int | None = None
        self.finished_ns: int | None = None
        self.exhausted: BudgetExhausted | None = None
        self.last_ns = 0
        self.sequence = 0

    def see(self, record: Recorded) -> None:
        """A record came, whatever it says."""
        self.sequence = record.sequence
        self.last_ns = record.time_ns
        if self.sessions and self.sessions[-1].number == record.session:
            self.sessions[-1].last_ns = record.time_ns

    def _session_of(self, record: Recorded) -> Session | None:
        """The session that wrote a new record; null where it has not introduced itself."""
        newest = self.sessions[-1] if self.sessions else None
        return newest if newest is not None and newest.number == record.session else None

    def run_started(self, record: Recorded, event: RunStarted) -> None:
        """The run came into being."""
        self.kind, self.run = event.kind, event.run
        self.settings = dict(event.settings)
        self.toolsets, self.versions, self.inputs = event.toolsets, event.versions, event.inputs
        self._offer()
        self.started_ns = record.time_ns

    def settings_changed(self, _: Recorded, event: SettingsChanged) -> None:
        """A resume changed settings."""
        for name, (_before, now) in event.changes.items():
            self.settings[name] = now
        if event.toolsets is not None:
            self.toolsets = event.toolsets
            self._offer()

    def _offer(self) -> None:
        self.tools |= {str(tool["name"]) for tools in self.toolsets.values() for tool in tools}

    def session_opened(self, record: Recorded, event: SessionOpened) -> None:
        """A process began to work."""
        self.sessions.append(Session.opened(record, event))
        self.exhausted = None

    def session_closed(self, record: Recorded, event: SessionClosed) -> None:
        """A process ended in order."""
        session = self._session_of(record)
        if session is not None:
            session.closed(event)

    def run_finished(self, record: Recorded, _: RunFinished) -> None:
        """Nothing was left to do."""
        self.finished_ns = record.time_ns

    def budget_exhausted(self, _: Recorded, event: BudgetExhausted) -> None:
        """A cap was met."""
        self.exhausted = event
