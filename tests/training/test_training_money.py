"""Caps of training runs: what agents and learners pay by themselves is bounded, bracketed, and paid once."""

from collections import Counter
from decimal import Decimal

from tests import warm
from tests.runs import environment, evrun
from tests.training.toys import Toy

CAP = Decimal("0.60")


def capped(directory, **budget):
    """The toy under caps: a rollout takes at most 0.10 USD, a call of the learner 0.05."""
    return Toy(
        directory, agent__bound={"usd": 0.10}, evolver__bound={"usd": 0.05},
        trainer__budget=budget,
    )  # fmt: skip


def really_paid(paid: Counter[str]) -> Decimal:
    """What was paid, by the word of those who were."""
    rollouts = sum(count for what, count in paid.items() if what.startswith("rollout"))
    steps = sum(count for what, count in paid.items() if what.startswith("learner"))
    return rollouts * Decimal("0.10") + steps * Decimal("0.05")


def train(toy, *more):
    """Train, or go on."""
    return evrun("train", "--config", toy.config, "--json", *more, cwd=toy.directory)


def check_bracket(toy, cap=CAP):
    """Real spend lies in what the audit says, and that within the cap."""
    audit = evrun("audit", toy.run, "--json", cwd=toy.directory).json
    settled, in_doubt = Decimal(audit["settled_usd"]), Decimal(audit["in_doubt_usd"])
    assert settled <= really_paid(toy.paid()) <= settled + in_doubt <= cap, audit
    assert [check for check in audit["checks"] if not check["ok"]] == []


def test_five_kills_under_a_cap_stay_in_the_bracket_and_the_cap(tmp_path):
    """Killed five times, then paused by the cap: settled <= real <= settled + in doubt <= cap (case 2)."""
    toy = capped(tmp_path, usd=0.60)
    sequence = 18
    for _ in range(5):
        process = warm.start(
            "tests.training.dying:main", [str(toy.config), str(sequence)], cwd=tmp_path,
            environment=environment(),
        )  # fmt: skip
        with process:
            process.communicate(60)
        sequence += 11
        check_bracket(toy)
    paused = train(toy)
    assert paused.code == 4, paused
    check_bracket(toy)


def test_a_cap_in_the_middle_of_a_step_pauses_and_a_higher_one_goes_on(tmp_path):
    """Paid rollouts are kept, nothing is paid again, and the run ends as it would have (case 10)."""
    toy = capped(tmp_path, usd=0.60)
    paused = train(toy)
    assert paused.code == 4, paused
    assert "trainer.budget.usd" in paused.json["reason"]
    summary = evrun("status", toy.run, "--json", cwd=tmp_path).json
    assert summary["state"] == "paused"
    done = train(toy, "trainer.budget.usd=5")
    assert done.code == 0, done
    rollouts = {what: count for what, count in toy.paid().items() if what.startswith("rollout")}
    assert rollouts == {f"rollout t{number}": 2 for number in (1, 2, 3, 4)}
    assert [step["status"] for step in toy.steps()] == ["done"] * 5


def test_a_stop_by_a_cap_leaves_a_usable_adapter_out_of_its_reserve(tmp_path):
    """Final adapter, card and summary are there; what is kept back is not spent on steps (case 11)."""
    toy = capped(tmp_path, usd=0.70, finalize_reserve_usd=0.10)
    paused = train(toy)
    assert paused.code == 4, paused
    assert toy.paid()["finalize"] == 1
    assert (toy.run / "checkout/CARD.md").is_file()
    assert "hard budget: usd" in (toy.run / "summary.json").read_text()
    done = train(toy, "trainer.budget.usd=5")
    assert done.code == 0, done
    assert "completed all epochs" in (toy.run / "summary.json").read_text()


def test_a_cap_on_a_step_and_a_cap_on_a_role_are_held(tmp_path):
    """A part's cap stops the run, and says by which key."""
    toy = capped(tmp_path / "step", step_usd=0.15)
    paused = train(toy)
    assert paused.code == 4, paused
    assert "trainer.budget.step_usd" in paused.json["reason"]
    toy = capped(tmp_path / "role", role_usd={"rollout": 0.25})
    paused = train(toy)
    assert paused.code == 4, paused
    assert "trainer.budget.role_usd.rollout" in paused.json["reason"]
    assert sum(count for what, count in toy.paid().items() if what.startswith("rollout")) == 2


def test_an_agent_that_pays_by_itself_needs_a_bound_under_a_cap(tmp_path):
    """No cap could hold otherwise: refused before anything is spent, with the key to give."""
    toy = Toy(tmp_path, trainer__budget={"usd": 0.60})
    refused = train(toy)
    assert refused.code == 2, refused
    assert "agent.bound.usd" in refused.stderr
    assert not toy.paid()


def test_what_an_agent_of_ones_own_does_not_say_is_unknown_and_not_nothing(tmp_path):
    """Null in the records, and counted; a bound of 0 says that there is nothing to know."""
    toy = Toy(tmp_path, trainer__epochs=1)
    agent = tmp_path / "agent.py"
    agent.write_text(agent.read_text().replace(", cost_usd=0.1)", ")"))
    assert train(toy).code == 0
    rollouts = [step["rollout"] for step in toy.steps() if step["step"]]
    assert [(one["cost_usd"], one["unknown_cost_tasks"]) for one in rollouts] == [(None, 2)] * 2
    assert train(toy, "trainer.run_name=free", "agent.bound.usd=0").code == 0
    toy.run = toy.run.with_name("free")
    rollouts = [step["rollout"] for step in toy.steps() if step["step"]]
    assert [(one["cost_usd"], one["unknown_cost_tasks"]) for one in rollouts] == [("0.00", 0)] * 2
