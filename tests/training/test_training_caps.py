"""The caps of a training run: exact amounts, refused where they could not hold, and how far they reach."""

import pytest

from evrun.errors import UsageFault
from evrun.training.bindings import bindings_of
from evrun.training.caps import CAP_KEYS, caps_of, check_caps_hold, steps_afforded
from evrun.training.tasks import load_tasks
from tests.training.configured import config_in

MINE = "backends={mine: {base_url: 'http://127.0.0.1:9/v1', prices: {m: {input: 1, output: 2}}}}"
BOUND = ("agent.bound.usd=0", "evolver.bound.usd=0")


def checked(tmp_path, *overrides):
    """Whether the caps of a configuration can be held."""
    config = config_in(tmp_path, MINE, *overrides)
    check_caps_hold(config, caps_of(config), bindings_of(config, {}))


def test_caps_are_exact_integers(tmp_path):
    """0.1 USD are 100,000,000 nano-USD; hours are nanoseconds; what is null is no cap."""
    budget = (
        "trainer.budget={usd: 0.3, tokens: 5, calls: 6, hours: 0.1, step_usd: 0.000000001, "
        "role_usd: {learner: 0.1, judge: 7}, finalize_reserve_usd: 0.07}"
    )
    assert caps_of(config_in(tmp_path, budget)) == {
        "usd": 300_000_000, "tokens": 5, "calls": 6, "hours": 360_000_000_000, "step_usd": 1,
        "role_usd.judge": 7_000_000_000, "role_usd.learner": 100_000_000, "finalize_reserve_usd": 70_000_000,
    }  # fmt: skip
    assert caps_of(config_in(tmp_path)) == {}
    assert set(caps_of(config_in(tmp_path, budget))) <= set(CAP_KEYS)
    with pytest.raises(UsageFault, match=r"trainer.budget.usd: .* is finer than"):
        caps_of(config_in(tmp_path, "trainer.budget.usd=0.0000000001"))


def test_an_unknown_price_under_a_cap_is_refused(tmp_path):
    """Whichever part asks the model, and whichever cap on money is set; unless it is allowed."""
    parts = {
        "agent": ("agent=chat", "agent.params={model: mine/x, max_tokens: 9}"),
        "judge": ("judge=llm", "judge.params={model: mine/x, max_tokens: 9}"),
        "learner": ("evolver=reflect", "evolver.params={model: mine/x, max_tokens: 9}"),
    }
    for part in parts.values():
        checked(tmp_path, *BOUND, *part)
        for cap in ("usd", "step_usd"):
            with pytest.raises(
                UsageFault, match=rf"trainer.budget.{cap} needs a price, and that of x"
            ) as caught:
                checked(tmp_path, *BOUND, *part, f"trainer.budget.{cap}=1")
            assert "prices: {x: {input" in caught.value.hint
            checked(tmp_path, *BOUND, *part, f"trainer.budget.{cap}=1", "unknown_price=allow")
            checked(tmp_path, *BOUND, *part, f"trainer.budget.{cap}=1", "prices={x: [1, 2]}")
    checked(tmp_path, *BOUND, *parts["agent"], "trainer.budget.role_usd.judge=1")
    with pytest.raises(UsageFault, match=r"role_usd.rollout needs a price"):
        checked(tmp_path, *BOUND, *parts["agent"], "trainer.budget.role_usd.rollout=1")


def test_a_cap_needs_an_output_cap(tmp_path):
    """Under a cap on money or tokens the longest answer must be known; a free model's only for tokens."""
    chat = (*BOUND, "agent=chat", "model=mine/m", "evolver.params.max_tokens=5")
    with pytest.raises(UsageFault, match=r"trainer.budget.usd needs to know how long") as caught:
        checked(tmp_path, *chat, "trainer.budget.usd=1")
    assert caught.value.hint.startswith("set agent.params.max_tokens")
    with pytest.raises(UsageFault, match=r"trainer.budget.tokens needs to know how long"):
        checked(tmp_path, *chat, "trainer.budget.tokens=1")
    checked(tmp_path, *chat, "trainer.budget.usd=1", "agent.params.max_tokens=9")
    checked(tmp_path, *chat, "trainer.budget.calls=1")
    checked(tmp_path, *chat, "trainer.budget.usd=1", "prices={m: [0, 0]}")
    with pytest.raises(UsageFault, match="extra_body plugins"):
        checked(
            tmp_path, *chat, "trainer.budget.usd=1", "agent.params.max_tokens=9",
            "agent.params.extra_body={plugins: [web]}",
        )  # fmt: skip


def test_code_of_ones_own_has_to_say_what_it_spends_under_a_cap(tmp_path):
    """An agent or learner that may pay by itself needs a bound; 0 says that it does not."""
    for cap, field in (("usd=1", "usd"), ("step_usd=1", "usd"), ("tokens=100", "tokens")):
        with pytest.raises(UsageFault, match="one rollout") as caught:
            checked(tmp_path, f"trainer.budget.{cap}", "evolver.bound.usd=0")
        assert f"set agent.bound.{field}" in caught.value.hint
        with pytest.raises(UsageFault, match="one call of the learner") as caught:
            checked(tmp_path, f"trainer.budget.{cap}", "agent.bound.usd=0")
        assert f"set evolver.bound.{field}" in caught.value.hint
        checked(tmp_path, f"trainer.budget.{cap}", *BOUND)
    checked(tmp_path, "trainer.budget.calls=1", "trainer.budget.hours=1")
    checked(tmp_path, "trainer.budget.usd=1", "agent.bound.usd=0", "evolver=reflect", "llm=mine/m",
            "evolver.params.max_tokens=5")  # fmt: skip


def afforded(tmp_path, *overrides):
    """How many steps the cap pays for."""
    config = config_in(tmp_path, MINE, *overrides)
    return steps_afforded(
        config, caps_of(config), bindings_of(config, {}), load_tasks(config), adapter_bytes=100
    )


def test_how_many_steps_a_cap_can_pay_for_is_known_beforehand(tmp_path):
    """Two rollouts at 0.10 and a learner at 0.05 are 0.25 a step: 0.33 USD pay for one step of two."""
    bounds = ("data.step_size=2", "agent.bound.usd=0.1", "evolver.bound.usd=0.05")
    found = afforded(tmp_path, *bounds, "trainer.budget.usd=0.33")
    assert (found.steps, found.total, found.step_nano_usd, found.unknown) == (1, 2, 250_000_000, ())
    assert "pays for 1 of 2 steps: one takes 0.25 USD at most; what the learner" in found.words(330_000_000)
    assert afforded(tmp_path, *bounds, "trainer.budget.usd=0.5").steps == 2
    reserve = "trainer.budget.finalize_reserve_usd=0.01"
    assert afforded(tmp_path, *bounds, "trainer.budget.usd=0.5", reserve).steps == 1
    assert afforded(tmp_path, *bounds, "trainer.budget.usd=0.6", "trainer.epochs=2").total == 4
    assert afforded(tmp_path, *bounds) is None
    config = config_in(tmp_path, MINE, *bounds, "trainer.budget.usd=0.5")
    tasks, none = load_tasks(config), bindings_of(config, {})
    known = [steps_afforded(config, caps_of(config), none, tasks, calls=calls) for calls in (0, 1)]
    assert [(one.steps, one.on_top) for one in known] == [(2, False), (1, False)]


def test_a_part_that_nobody_can_bound_is_named(tmp_path):
    """What is known still says that a cap is too small; what is not is told."""
    chat = ("data.step_size=2", "agent=chat", "agent.params={model: mine/m, max_tokens: 1000}")
    own = afforded(tmp_path, *chat, "evolver.bound.usd=0.05", "trainer.budget.usd=1")
    # A rollout: at most about 700 tokens in at 1 USD a million, and 1,000 out at 2.
    assert 50_000_000 + 2 * 2_000_000 < own.step_nano_usd < 50_000_000 + 2 * 3_000_000
    assert own.unknown == ()
    asks = afforded(tmp_path, *chat, "llm=mine/m", "trainer.budget.usd=0.001")
    assert (asks.steps, asks.unknown) == (0, ("the learner",))
    assert "at most 0 of 2 steps" in asks.words(1_000_000)
    assert afforded(tmp_path, "trainer.budget.usd=1", *BOUND) is None
