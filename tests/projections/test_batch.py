"""The fold of a batch run: outcomes are exclusive, counts add up, attempts follow their events."""

import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.events import (
    AttemptSuperseded,
    Counts,
    PromptsWithdrawn,
    RowsSkipped,
    RunFinished,
    SessionOpened,
    SettingsChanged,
    SpendInDoubt,
    ToolFinished,
    ToolStarted,
    TrajectoryDiscarded,
    TrajectoryJudged,
)
from projections import BatchState, RunState, unit_name

from .histories import (
    answered,
    begun,
    discarded,
    failed,
    kept,
    planned,
    records,
    reserve,
    restored,
    spent,
    started,
)
from .random_history import History
from .test_spend import A, B, folded, opening

ROOT = Path(__file__).parents[2]
RANDOM = st.randoms(use_true_random=False)


@given(RANDOM)
@settings(max_examples=40, deadline=None)
def test_counts_follow_every_event_of_any_history(random):
    """The counts kept along the way are those that one finds by counting, and every event has its place."""
    history = History(random)
    state = RunState()
    for record in records(history.run(100)):
        state.apply(record)
    batch = state.batch
    outcomes = [unit.outcome for unit in batch.units.values()]
    for outcome in ("kept", "discarded", "failed", "open", "pending", "withdrawn"):
        assert batch.counts[outcome] == outcomes.count(outcome)
    assert batch.counts["total"] == len(outcomes) - outcomes.count("withdrawn")
    assert sum(batch.filtered_by_reason.values()) == batch.counts["discarded"]
    assert sum(batch.failed_by_class.values()) == batch.counts["failed"]
    assert list(batch.open) == [name for name in batch.open if batch.units[name].outcome == "open"]
    assert len(batch.open) == batch.counts["open"]
    assert batch.kept.trajectories == batch.counts["kept"]
    assert {name: unit.outcome for name, unit in batch.units.items()} == history.outcome
    assert batch.unexplained == 0


@given(RANDOM)
@settings(max_examples=40, deadline=None)
def test_the_tally_of_the_kept_is_what_the_kept_count(random):
    """However often trajectories are restored and set aside again."""
    history = History(random)
    state = RunState()
    for record in records(history.run(120)):
        state.apply(record)
    counted = [history.counted[unit] for unit, outcome in history.outcome.items() if outcome == "kept"]
    tally = state.batch.kept
    assert tally.tool_calls == sum(sum(n[0] for n in one.tools.values()) for one in counted)
    assert tally.reasoning_tokens == sum(one.reasoning_tokens or 0 for one in counted)
    assert tally.turns_with_reasoning == sum(one.turns_with_reasoning for one in counted)


@given(RANDOM)
@settings(max_examples=30, deadline=None)
def test_no_call_is_remembered_once_its_attempt_has_ended(random):
    """The state does not grow with the number of calls."""
    history = History(random)
    history.run(150)
    state = RunState()
    for record in records(history.commits):
        state.apply(record)
    waiting = set(history.waiting.values())
    assert set(state.batch.open._calls) <= waiting | {
        call for call, unit in state.batch.open._calls.items() if unit in state.batch.open
    }


def test_equal_rows_are_units_of_their_own():
    """The name holds content, occurrence and sample."""
    assert unit_name(bytes(16), 2, 3) == "prompt:" + "00" * 16 + "#2.3"


def test_samples_of_a_row_are_units_in_one_batch():
    """Three samples of two rows make six units in two places."""
    state = folded([SessionOpened(1, 1, "h", "0"), started(), planned(2, samples=3)])
    units = list(state.batch.units.values())
    assert [unit.sample for unit in units] == [1, 2, 3, 1, 2, 3]
    assert [unit.position for unit in units] == [0, 0, 0, 1, 1, 1]
    assert {unit.planned for unit in units} == {3}


def test_an_attempt_holds_its_conversation_until_the_prompt_ends():
    """Turns, tool results and money, whatever the order of the facts of one moment."""
    one = folded(opening(), [begun(A), reserve("c", A)], [spent("c"), answered("c", tools=1)])
    other = folded(opening(), [begun(A), reserve("c", A)], [answered("c", tools=1), spent("c")])
    for state in (one, other):
        attempt = state.batch.open[A]
        assert attempt.settled_nano_usd == 60
        assert len(attempt.answered_turns) == 1
    one.apply(records([[SessionOpened(1, 1, "", ""), ToolStarted(A, 1, 1, 0, "look", b"")]])[1])
    one.apply(
        records(
            [[SessionOpened(1, 1, "", ""), ToolFinished(A, 1, 1, 0, b"seen", success=True, duration_ms=3)]]
        )[1]
    )
    assert one.batch.open[A].turns[0].results[0].content == b"seen"


def test_an_open_attempt_goes_on_in_the_next_session():
    """A call in doubt leaves its turn to the call that repeats it; the answer counts once."""
    state = folded(
        opening(),
        [begun(A), reserve("c", A)],
        [SessionOpened(2, 1, "h", "0")],
        [SpendInDoubt("c", "died", 100, 30)],
        [reserve("d", A)],
        [spent("d"), answered("d")],
    )
    attempt = state.batch.open[A]
    assert (attempt.api_calls, attempt.settled_nano_usd, attempt.in_doubt_nano_usd) == (1, 60, 100)
    assert attempt.session == 1


def test_a_superseded_attempt_keeps_its_cost_and_stands_for_nothing():
    """The unit is pending again; late money of the attempt is superseded too."""
    state = folded(
        opening(),
        [begun(A), reserve("c", A), spent("c", 60)],
        [reserve("d", A)],
        [AttemptSuperseded(A, 1, "why")],
        [spent("d", 7)],
    )
    assert state.batch.units[A].outcome == "pending"
    assert state.batch.superseded_nano_usd == 67
    assert state.batch.superseded_attempts == 1
    assert A not in state.batch.open


def test_a_restored_trajectory_keeps_its_place():
    """The boundary that orders the rows is that of the attempt, not of the new rule."""
    state = folded(opening(), [begun(A)], [discarded(A)], [restored(A)])
    unit = state.batch.units[A]
    assert (unit.outcome, unit.reason, unit.boundary) == ("kept", None, 5)


def test_another_reason_changes_no_tally():
    """Set aside again for another reason, or kept again: the sums stay, the reasons move."""
    again = folded(opening(), [begun(A)], [discarded(A)], [restored(A, "unknown_tool")])
    assert again.batch.kept.trajectories == 0
    assert +again.batch.filtered_by_reason == {"unknown_tool": 1}
    kept_twice = folded(opening(), [begun(A)], [kept(A, tools=2)], [restored(A, tools=2)])
    assert kept_twice.batch.kept.tool_calls == 2


def test_a_row_that_comes_back_keeps_its_batch():
    """Withdrawn is not forgotten; a finished unit stays what it is when its row goes."""
    state = folded(
        opening(), [begun(B)], [kept(B)], [PromptsWithdrawn([A, B])], [planned(1, batch_size=1, first=0)]
    )
    unit = state.batch.units[A]
    assert (unit.outcome, unit.batch, unit.planned) == ("pending", 1, 3)
    assert state.batch.units[B].outcome == "kept"


def test_an_open_prompt_whose_row_is_gone_is_given_up():
    """Its cost is superseded."""
    state = folded(opening(), [begun(A), reserve("c", A), spent("c")], [PromptsWithdrawn([A])])
    assert state.batch.superseded_nano_usd == 60
    assert state.batch.counts["withdrawn"] == 1
    assert state.batch.counts["total"] == 3


def test_events_that_do_not_fit_change_nothing_and_are_counted():
    """Ends of attempts that never were, a start of what is kept, units that nobody planned."""
    state = folded(
        opening(),
        [begun("prompt:nobody#1.1")],
        [kept(A, attempt=0)],
        [begun(A)],
        [kept(A, attempt=2)],
        [kept(A)],
        [begun(A, attempt=2)],
        [restored(B)],
    )
    assert state.batch.unexplained == 5
    assert state.batch.counts["kept"] == 1
    assert state.batch.units[A].attempt == 1


def test_a_prompt_may_fail_before_it_began():
    """A row that cannot even be tried."""
    state = folded(opening(), [failed(A, 1, "no_container")])
    assert state.batch.counts["failed"] == 1
    assert state.batch.failed_by_class == {"no_container": 1}


def test_a_finished_run_with_new_work_is_finished_no_more():
    """Null again from the first new row or attempt; a session that finds nothing to do changes nothing."""
    state = folded(
        [SessionOpened(1, 1, "h", "0"), started(), planned(1)], [begun(A)], [failed(A)], [RunFinished({})]
    )
    finished = state.batch.finished_ns
    assert finished is not None
    later = records([[SessionOpened(2, 1, "h", "0")]])[0]._replace(
        sequence=99, time_ns=finished + 1, session=2
    )
    state.apply(later)
    assert state.batch.finished_ns == finished
    state.apply(later._replace(sequence=100, event=begun(A, 2)))
    assert state.batch.finished_ns is None


def test_settings_that_change_are_those_in_force():
    """The record and the change; a new map of tools replaces the old one."""
    change = SettingsChanged({"model": ("m", "n"), "top_p": (None, 0.5)}, {"hands": []})
    state = folded(opening(), [change], [RowsSkipped([(3, "blank prompt"), (9, "no prompt")])])
    assert state.batch.settings["model"] == "n"
    assert state.batch.settings["top_p"] == 0.5
    assert state.batch.toolsets == {"hands": []}
    assert state.batch.rows_skipped == 2


def test_a_prompt_costs_few_bytes():
    """At most 400 bytes a prompt, names and money included, when all have ended."""
    number, chunk = 20_000, 250
    state = BatchState()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        sequence = 0
        opened = records([[SessionOpened(1, 1, "h", "0")]])[0]
        state.apply(opened)
        for first in range(0, number, chunk):
            sequence += 1
            state.apply(opened._replace(sequence=sequence, event=planned(chunk, 10, first)))
        for name, unit in state.units.items():
            sequence += 2
            state.apply(opened._replace(sequence=sequence - 1, event=begun(name)))
            unit.settled_nano_usd += 1_000_000 + sequence
            state.apply(opened._replace(sequence=sequence, event=kept(name)))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / number < 400


def test_folding_does_not_depend_on_the_hash_seed(tmp_path):
    """The same log gives the same views in processes that order their sets otherwise."""
    digests = {run_in_process(tmp_path / seed, seed) for seed in ("0", "1", "4242")}
    assert len(digests) == 1


def run_in_process(directory, seed):
    """Build the views of one history in a process of its own; the digest of all files."""
    script = (
        "import random, sys, hashlib, pathlib; sys.path.insert(0, sys.argv[2])\n"
        "from tests.projections.histories import LogMaker\n"
        "from tests.projections.random_history import History\n"
        "from projections import rebuild\n"
        "out = pathlib.Path(sys.argv[1])\n"
        "with LogMaker(out / 'log') as maker:\n"
        "    maker.write(History(random.Random(11), 12).run(300))\n"
        "    names = rebuild(maker.reader(), out)\n"
        "files = b''.join((out / name).read_bytes() for name in names)\n"
        "print(hashlib.sha256(files).hexdigest(), len(names))\n"
    )
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    command = [sys.executable, "-c", script, str(directory), str(ROOT)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def test_another_attempt_begins_without_the_score_and_the_tools_of_the_one_before():
    """What an earlier attempt was given, and whom it asked for, is not held against the next one."""
    state = RunState()
    commits = [
        [*opening(), begun(A), reserve("c", A)],
        [spent("c"), answered("c", tools=1)],
        [TrajectoryJudged(A, 1, 0.5, None, b"judge", "c"), discarded(A, tools=1)],
    ]
    for record in records(commits):
        state.apply(record)
    batch = state.batch
    assert batch.units[A].score == 0.5
    assert not batch.units[A].unknown_tools
    state.apply(records([*commits, [begun(A, 2)]])[-1])
    assert batch.units[A].score is None
    counted = Counts(1, 1, 0, None, {"look": (1, 1, 0), "nosuch": (1, 0, 1)})
    ended = TrajectoryDiscarded(A, 2, True, False, "stop", counted, "unknown_tool")  # noqa: FBT003 (an event's fields)
    state.apply(records([*commits, [begun(A, 2)], [ended]])[-1])
    assert batch.units[A].unknown_tools
    state.apply(records([*commits, [begun(A, 2)], [ended], [begun(A, 3)]])[-1])
    assert not batch.units[A].unknown_tools
