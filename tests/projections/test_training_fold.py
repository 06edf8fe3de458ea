"""The fold of a training run: what each event changes, and what it does not."""

import pytest

from eventlog.events import (
    BudgetReserved,
    BudgetSpent,
    EvolverReturned,
    EvolverStarted,
    RolloutFinished,
    RolloutJudged,
    RolloutStarted,
    SessionOpened,
    SettingsChanged,
    SpendInDoubt,
    StepStarted,
)
from projections import RunState, audit_report, judge_unit, learner_unit, rollout_unit

from .histories import records, reserve, spent
from .training_events import ROOT, TrainingRun, entries, rolled_out, trained

A, B = rollout_unit(1, "a"), rollout_unit(1, "b")


def folded(run):
    """The state after all of a run's events."""
    state = RunState()
    for record in records(run.commits):
        state.apply(record)
    return state


def opened(*tasks):
    """A run in its first step."""
    run = TrainingRun().begin()
    run.start_epoch(*(tasks or ("a", "b")))
    run.start_step(*(tasks or ("a", "b")))
    return run


def test_a_step_s_record_says_all_that_its_events_said():
    """Scores, what the learner said, commits, check and repair, in one record that stays."""
    run = opened()
    run.rollout("a", 0.25)
    run.rollout("b", status="timeout")
    run.learn({"ADAPTER.md": b"new", "adapter.yaml": b"broken"})
    run.commit(repaired=True, tags=("ckpt-step-1",))
    (record,) = folded(run).training.steps
    assert record.rollouts.scores == {"a": 0.25, "b": None}
    assert (record.rollouts.mean_score, record.rollouts.coverage, record.rollouts.errors) == (0.25, 0.5, 1)
    assert (record.learner.summary, record.learner.wall_ms) == ("changed a word", 9)
    assert (record.parent, record.commits, record.commit, record.changed) == ("c0", ["c1", "c2"], "c2", True)
    assert (record.passed, len(record.issues), record.issues_after_repair) == (False, 1, [])
    assert [(one.path, one.restored_from) for one in record.repaired] == [("adapter.yaml", "root")]
    assert record.tags == ["ckpt-step-1"]


def test_the_adapter_and_the_state_are_those_of_the_newest_boundary():
    """A learner's candidate counts when the boundary says so, not before."""
    run = opened()
    run.rollout("a")
    run.rollout("b")
    run.learn({"ADAPTER.md": b"new"})
    before = folded(run).training
    assert (before.head, before.files, before.state_files) == ("c0", entries(ROOT), [])
    run.commit()
    after = folded(run).training
    assert (after.head, after.files) == ("c1", entries(ROOT | {"ADAPTER.md": b"new"}))
    assert after.state_files == entries({"memory.json": b"[1]"})
    assert (after.session, after.current, len(after.open)) == ("handle", None, 0)


def test_a_failed_learner_keeps_the_adapter():
    """Its state counts, its candidate does not."""
    run = opened()
    run.rollout("a")
    run.rollout("b")
    run.learn({"ADAPTER.md": b"new"}, status="failed")
    run.commit(status="failed")
    training = folded(run).training
    assert (training.head, training.files, training.steps[0].changed) == ("c0", entries(ROOT), False)


def test_a_rollout_that_is_tried_again_has_the_newest_attempt_s_score():
    """Failures are counted, the cost of what they cost is kept apart, and the score is the last one's."""
    run = opened()
    run.add(RolloutStarted(A, 1, "a", "c0"), reserve("c1", A))
    run.add(spent("c1", 70), *rolled_out(A, 1, "a", "error"))
    run.add(RolloutStarted(A, 2, "a", "c0"), reserve("c2", A, 2))
    run.add(spent("c2", 5), *rolled_out(A, 2, "a"))
    run.add(RolloutJudged(A, 2, 1.0, None, None, None, 1))
    state = folded(run)
    rollout = state.training.current.rollouts["a"]
    assert (rollout.attempt, rollout.status, rollout.failures, rollout.score) == (2, "ok", 1, 1.0)
    assert (rollout.settled_nano_usd, rollout.superseded_nano_usd, rollout.all_nano_usd) == (5, 70, 75)
    assert (state.training.rollouts_ok, state.training.rollouts_error) == (1, 1)
    money = state.training.money["step:1"]
    assert (money.settled_nano_usd, money.superseded_nano_usd) == (75, 70)


def test_an_attempt_that_is_carried_on_is_the_same_attempt():
    """A session that goes on with it takes over what was paid, and what was recorded of it."""
    run = opened()
    run.add(RolloutStarted(A, 1, "a", "c0"), reserve("c1", A))
    run.add(spent("c1", 70))
    run.add(SessionOpened(2, 1, "h", "0"), RolloutStarted(A, 1, "a", "c0", carried=True))
    state = folded(run)
    rollout = state.training.current.rollouts["a"]
    assert (rollout.attempt, rollout.settled_nano_usd, rollout.superseded_nano_usd) == (1, 70, 0)
    assert state.training.open[A].settled_nano_usd == 70


def test_money_of_a_learner_s_earlier_attempt_is_superseded():
    """A learner that died and is called anew costs twice, and the audit says which part was for nothing."""
    run = opened()
    unit = learner_unit("step", 1)
    run.start_learner()
    run.add(reserve("c1", unit, role="learner"), spent("c1", 40))
    run.start_learner(2)
    run.add(reserve("c2", unit, 2, role="learner"), spent("c2", 2))
    state = folded(run)
    money = state.training.money["step:1"]
    assert (money.settled_nano_usd, money.superseded_nano_usd) == (42, 40)
    report = audit_report(state.ledger, state.batch, state.training, run="r", live=True)
    assert (report["by_outcome"]["open"], report["by_outcome"]["superseded"]) == ("0.000000002", "0.00000004")


def test_a_judge_s_money_is_that_of_what_it_judges():
    """The model that judges a rollout is part of the rollout's cost."""
    run = opened()
    run.add(RolloutStarted(A, 1, "a", "c0"))
    run.add(*rolled_out(A, 1, "a"), reserve("c1", judge_unit(A), role="judge"))
    run.add(spent("c1", 9))
    assert folded(run).training.current.rollouts["a"].settled_nano_usd == 9


@pytest.mark.parametrize(
    "ending", [BudgetSpent("c1", spent("c1").usage, None, None), SpendInDoubt("c1", "lost", 9, 9)]
)
def test_a_cost_that_is_not_known_is_never_taken_for_nothing(ending):
    """A rollout with an unpriced call, or one in doubt, has no cost; the step counts such tasks."""
    run = opened()
    run.add(RolloutStarted(A, 1, "a", "c0"), reserve("c1", A, bound=None))
    run.add(ending, *rolled_out(A, 1, "a"))
    run.add(RolloutJudged(A, 1, 1.0, None, None, None, 1))
    run.rollout("b")
    run.learn()
    run.commit()
    rollouts = folded(run).training.steps[0].rollouts
    assert rollouts.tasks["a"].cost_nano_usd is None
    assert (rollouts.unknown_cost_tasks, rollouts.cost_nano_usd) == (1, 0)


def test_rollouts_are_kept_as_the_learner_was_shown_them():
    """What is settled after the learner's call has begun is in the account, and not in what it was shown."""
    run = opened()
    run.add(reserve("late", A))
    run.rollout("a")
    run.rollout("b")
    run.start_learner()
    run.add(spent("late", 11))
    run.learn()
    run.commit()
    state = folded(run)
    (record,) = state.training.steps
    assert record.rollouts.cost_nano_usd == 0
    assert record.budget.settled_nano_usd == 11


def test_trials_of_the_learner_do_not_lengthen_the_step_s_rollouts():
    """How long the rollouts took is known when the last of the step's own has ended."""
    run = opened("a")
    run.rollout("a")
    run.start_learner()
    before = folded(run).training.current.rolled_out_ns
    trial = f"{run.learner}/0a1b2c/task:a.1"
    run.add(RolloutStarted(trial, 1, "a", "0a1b2c"))
    run.add(*rolled_out(trial, 1, "a"))
    run.add(RolloutJudged(trial, 1, 0.75, None, None, None, 1))
    training = folded(run).training
    assert training.current.rolled_out_ns == before
    assert training.trials == {"0a1b2c": {"a": 0.75}}


def test_setup_and_finalize_are_calls_outside_steps():
    """Setup hands on its state and session; each is known by its newest end."""
    run = TrainingRun().begin()
    state = entries({"memory.json": b"{}"})
    for call, session in (("setup", "s"), ("finalize", "f")):
        unit = learner_unit(call, 0)
        run.add(EvolverStarted(unit, 1, call, 0))
        run.add(
            EvolverReturned(unit, 1, call, 0, "done", "", "", session, [], None, None, 1, None, state, [])
        )  # fmt: skip
    training = folded(run).training
    assert {call: status for call, (_, status) in training.calls.items()} == {
        "setup": "done", "finalize": "done",
    }  # fmt: skip
    assert (training.session, training.state_files, len(training.open)) == ("s", state, 0)


def test_the_bootstrap_is_step_0_and_no_step_of_tasks():
    """It has no rollouts, and the next step is the first."""
    run = TrainingRun().begin()
    unit = learner_unit("bootstrap", 0)
    run.add(EvolverStarted(unit, 1, "bootstrap", 0))
    run.add(
        EvolverReturned(unit, 1, "bootstrap", 0, "done", "", "", None, [], None, None, 1, [], [], [])
    )  # fmt: skip
    run.candidate, run.state = run.files, {}
    run.commit()
    state = folded(run)
    assert (state.training.bootstrapped, state.training.next_step) == (True, 1)
    assert state.training.steps[0].rollouts.mean_score is None


def test_a_final_adapter_stands_until_another_step_is_committed():
    """A run that goes on after a cap has no final adapter until it ends again."""
    run = opened("a", "b")
    run.rollout("a")
    run.rollout("b")
    run.learn()
    run.commit()
    run.finish(reason="hard budget: usd")
    assert folded(run).training.standing_final.stop_reason == "hard budget: usd"
    run.whole_step("c")
    training = folded(run).training
    assert training.standing_final is None
    assert training.final is not None


def test_an_attempt_of_an_evaluation_is_kept_as_it_stood_when_it_ended():
    """Its cost is what was known then; a second word about it is counted as one that does not fit."""
    run = trained()
    state = folded(run)
    (evaluation,) = state.training.evaluations.values()
    assert [(repeat, task, one.score) for repeat, task, one in evaluation.attempts] == [
        (1, "x", 1.0), (1, "y", None),
    ]  # fmt: skip
    assert evaluation.finished_ns is not None
    assert state.training.rollouts == {}
    run.evaluate(7, "x", 1.0)
    assert folded(run).training.unexplained == 1


@pytest.mark.parametrize(
    "event",
    [
        StepStarted(2, 1, ["b"], "c0"),
        RolloutFinished(B, 3, "ok", None, None, None, None, None, None, 1, [], None, None),
        RolloutJudged(A, 1, 1.0, None, None, None, 1),
        RolloutJudged("step:1/task:z", 1, 1.0, None, None, None, 1),
    ],
)
def test_an_event_that_does_not_fit_is_counted_and_changes_nothing_else(event):
    """The audit says that there is one; the step goes on as it was."""
    run = opened()
    run.rollout("a", 0.5)
    before = folded(run).training.current
    run.add(event)
    state = folded(run)
    assert state.training.unexplained == 1
    assert (state.training.current.step, state.training.current.rollouts["a"].score) == (before.step, 0.5)
    report = audit_report(state.ledger, state.batch, state.training, run="r", live=True)
    assert [check["name"] for check in report["checks"] if not check["ok"]] == ["every event has its place"]


def test_inputs_that_changed_are_known_by_their_new_digest():
    """What a session accepted is what the next one compares with."""
    run = TrainingRun().begin()
    run.add(SettingsChanged({"input:data.tasks": ("ab" * 32, "cd" * 32), "trainer.epochs": (2, 3)}, None))
    state = folded(run)
    assert state.training.inputs == {"data.tasks": "cd" * 32}
    assert state.batch.settings["trainer.epochs"] == 3


def test_a_run_of_prompts_has_nothing_of_training():
    """Its reservations are the batch's business alone."""
    state = RunState()
    from .histories import started

    for record in records(
        [[started()], [BudgetReserved("c", "u", 1, "rollout", "m", "h", b"", 1, 1, 1, "t")]]
    ):
        state.apply(record)
    assert not state.is_training
    assert state.training.money == {}
