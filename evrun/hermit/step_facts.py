"""What a learner's call and the boundary of its step were in Hermit, as events. Pure."""

from eventlog.events import (
    CandidateChecked,
    CandidateRepaired,
    CommitMade,
    Event,
    EvolverReturned,
    EvolverStarted,
    FileEntry,
    Issue,
    StepCommitted,
)
from projections import learner_unit

from .lines import CheckPart, ResultPart, StepLine
from .money import learner_usage
from .reading import as_json
from .timing import span_ns

STATUSES = frozenset({"done", "failed", "out_of_budget", "stop"})
KEEPING = frozenset({"failed", "out_of_budget"})
"""Statuses after which the adapter stays what it was."""


def call_of(line: StepLine) -> str:
    """Which of the learner's methods was called."""
    return "bootstrap" if line.bootstrap else "step"


def setup_facts() -> list[Event]:
    """The learner's setup, of which Hermit keeps nothing but that it went well."""
    return _call("setup", "as Hermit ran it", None, None)


def finalize_facts(text: str, adapter: list[FileEntry], state: list[FileEntry]) -> list[Event]:
    """The learner's last word."""
    return _call("finalize", text, adapter, state)


def returned(
    line: StepLine,
    said: ResultPart | None,
    adapter: list[FileEntry],
    state: list[FileEntry],
    output: list[FileEntry],
) -> EvolverReturned:
    """The learner's answer; one that failed gives no adapter."""
    call, evolver = call_of(line), line.evolver
    status = status_of(line)
    return EvolverReturned(
        learner_unit(call, line.step), 1, call, line.step, status, evolver.summary,
        "" if said is None else said.rationale, line.session,
        [learner_usage(one) for one in evolver.usage], as_json((said and said.extra) or None), None,
        span_ns(evolver.wall_s) // 1_000_000, None if status in KEEPING else adapter, state, output,
    )  # fmt: skip


def check_facts(line: StepLine) -> list[Event]:
    """What the check found, and what was put back; nothing where the adapter stayed as it was."""
    check = line.check
    if check.issues is None:
        return []
    events: list[Event] = [CandidateChecked(line.step, bool(check.passed), _issues(check))]
    events += [CandidateRepaired(line.step, one.path, one.restored_from, one.reason) for one in line.repaired]
    after = check.after_repair
    if after is not None:
        events.append(CandidateChecked(line.step, bool(after.passed), _issues(after), after_repair=True))
    return events


def committed(
    line: StepLine,
    commits: list[CommitMade],
    state: list[FileEntry],
    session: str | None,
    tags: list[str],
) -> StepCommitted:
    """The step's boundary."""
    told = line.evolver.status
    note = None if told in STATUSES else f"the learner said {told!r}, which Hermit took for done"
    return StepCommitted(
        line.step, line.epoch, status_of(line), note, line.parent, commits, state, session, tags,
        span_ns(line.budget_after.seconds),
    )  # fmt: skip


def status_of(line: StepLine) -> str:
    """The learner's status; what is none counts as done, as it did."""
    return line.evolver.status if line.evolver.status in STATUSES else "done"


def _issues(check: CheckPart) -> list[Issue]:
    return [Issue(one.path, one.check, one.problem) for one in check.issues or []]


def _call(
    call: str, summary: str, adapter: list[FileEntry] | None, state: list[FileEntry] | None
) -> list[Event]:
    unit = learner_unit(call, 0)
    return [
        EvolverStarted(unit, 1, call, 0),
        EvolverReturned(
            unit, 1, call, 0, "done", summary, "", None, [], None, None, 0, adapter, state,
            None if state is None else [],
        ),
    ]  # fmt: skip
