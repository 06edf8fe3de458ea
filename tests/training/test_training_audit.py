"""`evrun audit` of training runs: by what became of the work, by step, and under caps on parts."""

import pytest

from eventlog.events import BudgetChanged, EvaluationAttemptJudged, RolloutStarted
from eventlog.storage import LogReader
from projections import judge_unit, learner_unit
from tests.cli.shell import evrun
from tests.projections.histories import LogMaker, reserve, spent
from tests.projections.training_events import TrainingRun, rolled_out, trained
from tests.projections.training_views import why

CAPS = {
    "usd": 10**9, "step_usd": 1000, "role_usd.judge": 100, "role_usd.rollout": 10**6,
    "finalize_reserve_usd": 500,
}  # fmt: skip


@pytest.fixture
def spending(tmp_path):
    """A run in ``runs/r`` that has spent on everything that a run can spend on, and has a step open."""
    run = TrainingRun().begin()
    run.add(BudgetChanged({}, CAPS))
    number = iter(range(1, 99))

    def pay(unit, cost, role="rollout", attempt=1):
        call = f"s1.c{next(number)}"
        run.add(reserve(call, unit, attempt, cost, role=role))
        run.add(spent(call, cost))

    run.start_epoch(*"abcd")
    run.start_step("a", "b")
    run.add(RolloutStarted(run.unit("a"), 1, "a", "c0"))
    pay(run.unit("a"), 300)
    run.add(*rolled_out(run.unit("a"), 1, "a", "error"))
    run.rollout("a", attempt=2)
    run.rollout("b")
    pay(judge_unit(run.unit("b")), 90, "judge")
    run.learn({"ADAPTER.md": b"new"})
    pay(run.learner, 40, "learner")
    run.commit()
    run.start_step("c", "d")
    run.rollout("c")
    pay(run.unit("c"), 7)
    run.rollout("d")
    run.learn(status="failed")
    run.commit(status="failed")
    run.start_evaluation(1, "x")
    unit = "eval:final/1/task:x.1"
    run.add(RolloutStarted(unit, 1, "x", "c1"))
    pay(unit, 20, "evaluation")
    run.add(*rolled_out(unit, 1, "x"), EvaluationAttemptJudged(1, 1, "x", unit, 1, 1.0, None, None, None))
    pay(learner_unit("finalize", 0), 5, "learner")
    run.start_step("a")
    run.add(RolloutStarted(run.unit("a"), 1, "a", "c1"))
    pay(run.unit("a"), 2)
    run.add(reserve("open", run.unit("a"), 1, 10))
    with LogMaker(tmp_path / "runs" / "r" / "log") as maker:
        maker.write(run.commits)
    return tmp_path


def test_money_is_shown_by_what_became_of_the_work(spending):
    """Steps that count, steps that came to nothing, attempts that were replaced, held-out tasks."""
    said = evrun("audit", "runs/r", "--json", cwd=spending)
    assert said.code == 0
    report = said.json
    assert report["by_outcome"] == {
        "committed": "0.00000013",
        "failed": "0.000000007",
        "superseded": "0.0000003",
        "open": "0.000000007",
        "evaluation": "0.00000002",
        "other": "0.00",
    }
    assert report["settled_usd"] == "0.000000464"
    assert (report["reserved_usd"], report["in_doubt_usd"]) == ("0.00", "0.00000001")
    assert {one["role"]: one["settled_usd"] for one in report["by_role"]}["judge"] == "0.00000009"


def test_money_is_shown_by_step(spending):
    """The dearest part first, with what of it was for nothing and what is in doubt; also as CSV."""
    rows = evrun("audit", "runs/r", "--by", "step", "--json", cwd=spending).json["by_step"]
    assert [(row["unit"], row["outcome"], row["settled_usd"]) for row in rows] == [
        ("step:1", "committed", "0.00000043"),
        ("eval", "evaluation", "0.00000002"),
        ("step:2", "failed", "0.000000007"),
        ("finalize", "open", "0.000000005"),
        ("step:3", "open", "0.000000002"),
    ]
    assert rows[0]["superseded_usd"] == "0.0000003"
    assert rows[-1]["in_doubt_usd"] == "0.00000001"
    said = evrun("audit", "runs/r", "--by", "step", "--top", "1", "--csv", cwd=spending)
    assert said.out.splitlines()[0].startswith("unit,outcome,settled_usd")
    assert len(said.out.splitlines()) == 2


def test_caps_on_parts_are_shown_with_what_is_left_of_them(spending):
    """The dearest step, each role, what is kept back for the end; a cap that is nearly used up is told."""
    report = evrun("audit", "runs/r", "--json", cwd=spending).json
    caps = {cap["cap"]: cap for cap in report["caps"]}
    assert list(caps) == ["usd", "step_usd", "finalize_reserve_usd", "role_usd.judge", "role_usd.rollout"]
    assert (caps["step_usd"]["used"], caps["step_usd"]["prompt"]) == ("0.00000043", "step:1")
    assert (caps["role_usd.judge"]["left"], caps["role_usd.judge"]["percent"]) == ("0.00000001", 90)
    assert caps["finalize_reserve_usd"]["used"] == "0.000000005"
    assert [one["code"] for one in report["warnings"]] == ["role_usd.judge_80"]
    shown = evrun("audit", "runs/r", cwd=spending).out
    assert "cap for the judge" in shown
    assert "the dearest, step:1, has" in shown


def test_each_kind_of_run_has_its_own_grouping(spending):
    """A training run has steps and no prompts; asking for the other is told, with what to ask for."""
    said = evrun("audit", "runs/r", "--by", "prompt", cwd=spending)
    assert said.code == 2
    assert "this is a training run" in said.err
    assert "--by step" in said.err


def test_the_account_of_an_earlier_moment_is_that_moment_s(spending):
    """Before the first step was over, its money was spent on open work."""
    report = evrun("audit", "runs/r", "--at", "20", "--json", cwd=spending).json
    assert report["by_outcome"]["committed"] == "0.00"
    assert all(check["ok"] for check in report["checks"])


def test_a_call_in_doubt_is_settled_from_an_invoice_and_the_views_stay_those_of_the_log(spending):
    """The correction belongs to its step; replay finds every view as it ought to be."""
    said = evrun(
        "audit", "runs/r", "--settle", "open=0.0000001", "--note", "invoice 7", "--json", cwd=spending
    )
    assert said.code == 0, said.err
    assert said.json["by_outcome"]["open"] == "0.000000107"
    assert all(check["ok"] for check in said.json["checks"])
    with LogReader.open(spending / "runs" / "r" / "log") as reader:
        assert why(reader, spending / "runs" / "r") == {}


def test_a_run_without_money_has_an_account_that_adds_up(tmp_path):
    """Nothing spent is 0, everywhere."""
    with LogMaker(tmp_path / "runs" / "r" / "log") as maker:
        maker.write(trained().commits)
    report = evrun("audit", "runs/r", "--json", cwd=tmp_path).json
    assert set(report["by_outcome"].values()) == {"0.00"}
    assert all(check["ok"] for check in report["checks"])
