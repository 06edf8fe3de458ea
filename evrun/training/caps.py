"""What training may cost at most: the caps of `trainer.budget`, and whether they can be held."""

from collections.abc import Collection, Iterator, Mapping
from decimal import Decimal
from typing import NamedTuple

import msgspec

from projections import cap_amount

from ..batch.request import endpoint_host
from ..bounds import PER_MESSAGE, PER_REQUEST, UNBOUNDED_FIELDS
from ..errors import UsageFault
from ..estimate import PER_TURN, RESULT_TOKENS
from ..rates import bound_nano_usd
from .bindings import Binding, Bindings
from .config import CHAT, BoundConfig, TrainingConfig
from .config_checks import LEARNERS, ROLES
from .tasks import Tasks, chunks

CAP_KEYS: dict[str, str] = {
    name: f"trainer.budget.{name}"
    for name in (
        "usd", "tokens", "calls", "hours", "step_usd", *(f"role_usd.{role}" for role in ROLES),
        "finalize_reserve_usd",
    )
}  # fmt: skip
"""Each cap with the key that sets it, for messages."""

_NANO = 10**9
_NS_PER_HOUR = 3600 * 10**9


class _Part(NamedTuple):
    """A part of a run that costs money: its binding, and what it may spend by itself.

    `own` names its bound where it is code of the user's own. `options` is where its output cap is said.
    """

    binding: Binding | None
    roles: tuple[str, ...]
    options: str
    own: str | None
    bound: BoundConfig | None


def caps_of(config: TrainingConfig) -> dict[str, int]:
    """The caps as integers: USD in nano-USD, hours in nanoseconds; none where the key is null.

    Raises:
        UsageFault: an amount is finer than can be kept.
    """
    budget = config.trainer.budget
    money: dict[str, float | None] = {
        "usd": budget.usd,
        "step_usd": budget.step_usd,
        **{f"role_usd.{role}": budget.role_usd.get(role) for role in ROLES},
        "finalize_reserve_usd": budget.finalize_reserve_usd,
    }
    caps: dict[str, int | None] = {
        name: None if amount is None else nano_usd(amount, CAP_KEYS[name]) for name, amount in money.items()
    }
    caps |= {"tokens": budget.tokens, "calls": budget.calls}
    if budget.hours is not None:
        caps["hours"] = max(1, int(Decimal(repr(budget.hours)) * _NS_PER_HOUR))
    return {name: caps[name] or 0 for name in CAP_KEYS if caps.get(name) is not None}


def nano_usd(amount: float, key: str) -> int:
    """An amount in USD as whole nano-USD; `key` says in messages whose it is.

    Raises:
        UsageFault: it is finer than that.
    """
    nano = Decimal(repr(float(amount))) * _NANO
    if nano != nano.to_integral_value():
        raise UsageFault(f"{key}: {amount!r} is finer than 10^-9 USD, the smallest that is counted")
    return int(nano)


def check_caps_hold(config: TrainingConfig, caps: Mapping[str, int], bindings: Bindings) -> None:
    """Refuse caps that could not be held, before anything is spent.

    Raises:
        UsageFault: a price, an output cap or a bound is missing; the key that gives it is named.
    """
    for part in _parts(config, bindings):
        money = [
            name for name in ("usd", "step_usd", *(f"role_usd.{role}" for role in part.roles)) if name in caps
        ]
        if part.own is not None:
            _check_own(part, money, caps)
        if part.binding is not None:
            _check_binding(part, part.binding, money, caps)


def _parts(config: TrainingConfig, bindings: Bindings) -> Iterator[_Part]:
    chat, built_in = config.agent.name == CHAT, config.evolver.name in LEARNERS
    yield _Part(
        bindings.agent, ("rollout", "evaluation", "learner"), "agent.params",
        None if chat else "agent.bound", config.agent.bound,
    )  # fmt: skip
    yield _Part(bindings.judge, ("judge",), "judge.params", None, None)
    where = "evolver.params" if built_in or not isinstance(config.llm, dict) else "llm"
    yield _Part(
        bindings.learner, ("learner",), where, None if built_in else "evolver.bound", config.evolver.bound
    )


def _check_own(part: _Part, money: Collection[str], caps: Mapping[str, int]) -> None:
    """Code of the user's own may pay by itself; under a cap it has to say how much at most."""
    bound = part.bound or BoundConfig()
    what = "one rollout" if part.own == "agent.bound" else "one call of the learner"
    short = [(name, "usd", "USD") for name in money if bound.usd is None]
    short += [("tokens", "tokens", "tokens") for _ in (1,) if "tokens" in caps and not _says_tokens(bound)]
    for cap, field, unit in short:
        raise UsageFault(
            f"{CAP_KEYS[cap]} needs to know what {what} spends by itself outside evrun at most",
            f"set {part.own}.{field}: the most {unit}; 0 says that it pays nothing by itself",
        )


def _says_tokens(bound: BoundConfig) -> bool:
    return bound.tokens is not None or bound.usd == 0


def _check_binding(part: _Part, binding: Binding, money: list[str], caps: Mapping[str, int]) -> None:
    settings = binding.settings
    price = binding.price_of(settings.model)
    if money and price is None and settings.unknown_price != "allow":
        raise UsageFault(
            f"{CAP_KEYS[money[0]]} needs a price, and that of {settings.model} at {endpoint_host(settings)} "
            "is not known",
            f"give it: 'prices: {{{settings.model}: {{input: …, output: …}}}}' in USD per million tokens; "
            "or unknown_price: allow, and its calls count as unpriced",
        )
    tokens = ["tokens"] if "tokens" in caps else []
    fields = [name for name in UNBOUNDED_FIELDS if name in (settings.extra_body or {})]
    if fields and (money or tokens):
        raise UsageFault(
            f"{CAP_KEYS[[*money, *tokens][0]]} cannot hold with extra_body {', '.join(fields)}: "
            "what that may cost is not known",
            "leave it out, or do without the cap",
        )
    free = price is None or price.dearest_output == 0
    needing = [*([] if free else money), *tokens]
    if needing and settings.max_tokens is None and not _named(settings.extra_body):
        raise UsageFault(
            f"{CAP_KEYS[needing[0]]} needs to know how long an answer of {settings.model} can be",
            f"set {part.options}.max_tokens, reasoning included",
        )


class Afforded(NamedTuple):
    """How far a cap reaches: `steps` of `total`, where one costs at most `step_nano_usd` as far as is known.

    `unknown` names the parts whose cost nobody can say beforehand: with any, fewer steps may be afforded.
    `on_top`: calls of the learner outside steps may cost something too, and are not counted.
    """

    steps: int
    total: int
    step_nano_usd: int
    unknown: tuple[str, ...] = ()
    on_top: bool = False

    def words(self, cap_nano_usd: int) -> str:
        """The same for people."""
        share = f"{cap_amount('usd', cap_nano_usd)} ({CAP_KEYS['usd']})"
        step = cap_amount("usd", self.step_nano_usd)
        if self.unknown:
            return (
                f"{share} pays for at most {self.steps} of {self.total} steps: one may take {step}, and more "
                f"for {' and '.join(self.unknown)}"
            )
        more = "; what the learner spends outside of steps comes on top" if self.on_top else ""
        return f"{share} pays for {self.steps} of {self.total} steps: one takes {step} at most{more}"


def steps_afforded(
    config: TrainingConfig,
    caps: Mapping[str, int],
    bindings: Bindings,
    tasks: Tasks,
    *,
    adapter_bytes: int = 0,
    calls: int | None = None,
) -> Afforded | None:
    """How many steps the cap on USD can pay for, of how many; null without one, or where nothing is known.

    What each rollout and call of the learner may cost at most counts, once each: what is tried again, and
    evaluations, come on top. `adapter_bytes` is how large the adapter is that the agent is given, `calls` how
    many calls of the learner there are outside of steps, if that is known.
    """
    if "usd" not in caps:
        return None
    rollout, learner = _rollout_nano(config, bindings, tasks, adapter_bytes), _learner_nano(config, bindings)
    unknown = [name for name, nano in (("the rollouts", rollout), ("the learner", learner)) if nano is None]
    sizes = [len(chunk) for chunk in chunks(tasks.train, config.data.step_size)] * config.trainer.epochs
    costs = [size * (rollout or 0) + (learner or 0) for size in sizes]
    if not any(costs):
        return None
    left, steps = caps["usd"] - caps.get("finalize_reserve_usd", 0) - (calls or 0) * (learner or 0), 0
    for cost in costs:
        left -= cost
        if left < 0:
            break
        steps += 1
    return Afforded(steps, len(costs), max(costs), tuple(unknown), calls is None and bool(learner))


def _rollout_nano(config: TrainingConfig, bindings: Bindings, tasks: Tasks, adapter_bytes: int) -> int | None:
    """The most that a rollout and its judgement cost; null where nobody can say."""
    own = config.agent.bound or BoundConfig()
    nano = 0 if config.agent.name == CHAT else None
    if own.usd is not None:
        nano = nano_usd(own.usd, "agent.bound.usd")
    longest = max((len(msgspec.json.encode(tasks.rows[name])) for name in tasks.train), default=0)
    answer = 0
    if bindings.agent is not None:
        if config.agent.name != CHAT and not _is_free(bindings.agent):
            return None
        settings = bindings.agent.settings
        turns = settings.max_turns if settings.toolsets or settings.tools else 1
        results = RESULT_TOKENS if turns > 1 else 0
        answer = turns * ((settings.max_tokens or 0) + results)
        nano = _plus(nano, _calls_nano(bindings.agent, longest + adapter_bytes, turns, results))
    if bindings.judge is not None:
        # A judge is shown the task and the whole answer, whose tokens it may read as so many of its own.
        nano = _plus(nano, _calls_nano(bindings.judge, longest + 2 * answer, 1, 0))
    return nano


def _learner_nano(config: TrainingConfig, bindings: Bindings) -> int | None:
    """The most that a call of the learner costs; null where nobody can say."""
    bound = config.evolver.bound or BoundConfig()
    if bindings.learner is not None and not _is_free(bindings.learner):
        return None
    if bound.usd is not None:
        return nano_usd(bound.usd, "evolver.bound.usd")
    return 0 if config.evolver.name in LEARNERS else None


def _calls_nano(binding: Binding, given: int, turns: int, results: int) -> int | None:
    """The most that a conversation of so many turns costs which begins with so many bytes."""
    price, settings = binding.price_of(binding.settings.model), binding.settings
    if price is None or (settings.max_tokens is None and not _is_free(binding)):
        return None
    output = settings.max_tokens or 0
    growth = output + results + PER_TURN
    inputs = turns * (given + PER_REQUEST + 2 * PER_MESSAGE) + growth * (turns * (turns - 1) // 2)
    return bound_nano_usd(price, inputs, turns * output)


def _is_free(binding: Binding) -> bool:
    price = binding.price_of(binding.settings.model)
    return price is not None and bound_nano_usd(price, 1, 1) == 0


def _plus(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _named(extra_body: Mapping[str, object] | None) -> bool:
    """Whether fields of the user's own cap the answer."""
    return any(
        isinstance((extra_body or {}).get(name), int) for name in ("max_tokens", "max_completion_tokens")
    )
