"""What holds of every training run: random histories, killed and gone on from at random."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from projections import RunState, audit_report, check_training, open_training_views, recorded

from .histories import LogMaker, records
from .training_history import TrainingHistory
from .training_views import rebuilt, tree

seeds = st.integers(0, 10**9)


def folded(found):
    """The state that records add up to."""
    state = RunState()
    for record in found:
        state.apply(record)
    return state


@settings(max_examples=60)
@given(seeds, st.integers(1, 120))
def test_the_account_of_a_training_run_adds_up_at_every_event(seed, moves):
    """The parts by step, outcome, role and session are the whole, whatever was killed or corrected."""
    state = RunState()
    for record in records(TrainingHistory(random.Random(seed)).run_on(moves)):
        state.apply(record)
        report = audit_report(state.ledger, state.batch, state.training, run="r", live=True, prompts=True)
        assert [check for check in report["checks"] if not check["ok"]] == []
        training = state.training
        assert sum(money.settled_nano_usd for money in training.money.values()) == (
            state.ledger.total.settled_nano_usd
        )
        assert training.unexplained == 0


@settings(max_examples=60)
@given(seeds, st.integers(1, 120))
def test_scores_are_those_of_the_newest_attempts_that_were_judged(seed, moves):
    """What a record says of its rollouts is what their events said, and nothing is counted twice."""
    history = TrainingHistory(random.Random(seed))
    state = folded(records(history.run_on(moves)))
    training = state.training
    for record in training.steps:
        scored = [score for score in record.rollouts.scores.values() if score is not None]
        mean = record.rollouts.mean_score
        assert mean is None if not scored else min(scored) <= mean <= max(scored)
        assert record.rollouts.errors == len(record.tasks) - len(scored)
        assert list(record.rollouts.tasks) == record.tasks
    assert [record.step for record in training.steps] == list(range(1, len(training.steps) + 1))
    assert training.head == history.head
    assert {entry.path for entry in training.files} == set(history.files)
    assert set(training.open) >= set(history.open)


@settings(max_examples=15)
@given(seeds, st.integers(5, 90))
def test_views_of_a_run_that_is_killed_at_random_are_those_of_its_log(tmp_path_factory, seed, moves):
    """Kept up with, opened again after kills, looked at in between: the files are the log's, to the byte."""
    place, chance = tmp_path_factory.mktemp("training"), random.Random(seed)
    with LogMaker(place / "run" / "log") as maker:
        views = None
        for commit in TrainingHistory(random.Random(seed)).run_on(moves):
            maker.write([commit])
            if views is None or chance.random() < 0.05:
                views = open_training_views(place / "run", maker.reader())
            for record in recorded(maker.reader(), views.state.sequence + 1):
                views.apply(record)
            current = views.state.training.current
            if chance.random() < 0.3:
                views.refresh(lambda: 0.0)
            elif current is not None and current.measured is not None and chance.random() < 0.3:
                views.write_material(current)
        views.finish()
        reader = maker.reader()
        assert tree(place / "run") == rebuilt(reader, place / "again")
        assert [one for one in check_training(reader, place / "run") if not one.same] == []


@settings(max_examples=60)
@given(seeds, st.integers(1, 80), st.data())
def test_events_in_an_order_that_cannot_be_are_counted_and_harm_nobody(seed, moves, data):
    """A fold never falls over: what does not fit is counted, and the money is all there."""
    found = records(TrainingHistory(random.Random(seed)).run_on(moves))
    rest = (
        data.draw(st.permutations(found[1:]))
        if len(found) < 40
        else random.Random(seed).sample(found[1:], 30)
    )
    state = folded([found[0], *rest])
    report = audit_report(state.ledger, state.batch, state.training, run="r", live=False)
    parts = next(check for check in report["checks"] if check["name"] == "parts add up")
    assert parts["ok"], parts["detail"]


@given(seeds)
def test_the_same_history_is_the_same_state(seed):
    """Folding is a function of the events: twice the same gives the same records."""
    found = records(TrainingHistory(random.Random(seed)).run_on(40))
    one, two = folded(found), folded(found)
    assert one.training.steps == two.training.steps
    assert one.training.money == two.training.money
