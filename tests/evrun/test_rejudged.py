"""What a changed rule says of trajectories that have ended, from what the log holds of them."""

from eventlog.events import PromptsWithdrawn, SessionOpened, TrajectoryRestored
from evrun.batch.opening import rejudged
from evrun.batch.settings import Settings
from projections import fold_log
from tests.projections.histories import (
    LogMaker,
    begun,
    discarded,
    failed,
    kept,
    name_of,
    planned,
    restored,
    started,
)

REQUIRE = Settings(dataset="d", model="m", require_reasoning=True)
KEEP_ALL = Settings(dataset="d", model="m", require_reasoning=False)
DUMB = {"with_reasoning": 0}


def changes(tmp_path, settings, *ended):
    """Which units settings would move, and where to, after these commits."""
    with LogMaker(tmp_path / "log") as log:
        log.write([[SessionOpened(1, 1, "h", "0"), started(), planned(6)], *([event] for event in ended)])
        reader = log.reader()
        state = fold_log(reader)
        assert state.batch.unexplained == 0
        found = list(rejudged(reader, state.batch, settings))
    assert all(isinstance(event, TrajectoryRestored) for event in found)
    return [(event.unit, event.reason) for event in found]


def test_only_the_newest_end_of_a_unit_is_judged(tmp_path):
    """It was set aside, tried again, and kept with reasoning: its first end says nothing any more."""
    a, b = name_of(0), name_of(1)
    ended = [
        begun(a), discarded(a, **DUMB), begun(a, 2), kept(a, 2),
        begun(b), discarded(b), begun(b, 2), kept(b, 2, **DUMB),
    ]  # fmt: skip
    assert changes(tmp_path, REQUIRE, *ended) == [(b, "no_reasoning")]


def test_a_rule_moves_what_it_is_about_and_nothing_else(tmp_path):
    """Kept and set aside change places; what is open, failed or moved already stays."""
    a, b, c, d, e = map(name_of, range(5))
    ended = [
        begun(b), kept(b, **DUMB), begun(a), kept(a),
        begun(c), failed(c), begun(d), begun(e), kept(e, **DUMB), restored(e, "no_reasoning", **DUMB),
    ]  # fmt: skip
    assert changes(tmp_path / "require", REQUIRE, *ended) == [(b, "no_reasoning")]
    assert changes(tmp_path / "all", KEEP_ALL, *ended) == [(e, None)]


def test_a_trajectory_whose_row_is_gone_is_judged_too(tmp_path):
    """It is kept in the outputs, so the rules of the run hold for it."""
    a = name_of(0)
    ended = [begun(a), kept(a, **DUMB), PromptsWithdrawn([a])]
    assert changes(tmp_path, REQUIRE, *ended) == [(a, "no_reasoning")]
