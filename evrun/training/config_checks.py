"""What a configuration may not say, each by its key."""

import difflib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from ..batch.agent_setting import COMMAND
from ..batch.headers import looks_like_a_key
from ..batch.settings import UNKNOWN_PRICE
from ..errors import UsageFault
from .backends import check_backends, check_llm, checked_price
from .config import CHAT, BoundConfig, TrainingConfig
from .params import CHAT_ALONE, CHATTING, JUDGES, check_learner
from .params import check_names as check_params

RESUME_MODES = ("auto", "disable")
EXECUTORS = ("local", "ray")
LLM_JUDGE = "llm"
LEARNERS = ("reflect", "gepa")
"""The built-in learners."""
ROLES = ("rollout", "judge", "learner", "evaluation")
_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,80}")
_TAKEN = ("trunk", "root", "import", "HEAD")
"""Names of the tree's own branches and tags, and what git calls by this name."""
_SECRET_NAME = re.compile(
    r"(?:\w*_)?(?:api_?key|password|passwd|secret|access_token|auth_token)", re.IGNORECASE
)
_KEY_NAMES = frozenset({"key", "token", "sig", "signature"})
_MOST_USD = 10**6
_MOST_TOKENS = 10**15


def check_config(config: TrainingConfig) -> None:
    """Refuse what cannot be done.

    Raises:
        UsageFault: with the key, what was found, and what is expected.
    """
    for key, value in (
        ("agent.name", config.agent.name), ("evolver.name", config.evolver.name),
        ("agent.params", config.agent.params), ("judge.params", config.judge.params),
        ("evolver.params", config.evolver.params), ("backends", config.backends), ("llm", config.llm),
    ):  # fmt: skip
        check_no_secret(key, value)
    for key, found, expected in _wrong_numbers(config):
        raise UsageFault(f"{key}: expected {expected}, found {found}")
    _check_names(config)
    _check_places(config)
    _check_parts(config)
    _check_caps(config)
    if config.agent.name == CHAT:
        check_params("agent.params", config.agent.params, {*CHAT_ALONE, *CHATTING})
    check_learner(config.evolver.name, config.evolver.params)
    for price in config.prices:
        checked_price(price, "prices")
    check_backends(config.backends)
    if isinstance(config.llm, dict):
        check_llm(config.llm)


def _wrong_numbers(config: TrainingConfig) -> Iterator[tuple[str, object, str]]:
    trainer = config.trainer
    at_least_one: dict[str, int | None] = {
        "data.step_size": config.data.step_size,
        "agent.concurrency": config.agent.concurrency,
        "trainer.epochs": trainer.epochs,
        "trainer.save_freq.steps": trainer.save_freq.steps,
        "trainer.save_freq.epochs": trainer.save_freq.epochs,
        "eval.repeats": config.eval.repeats,
    }
    for key, number in at_least_one.items():
        if number is not None and number < 1:
            instead = " (or null: never)" if "save_freq" in key else ""
            yield key, number, f"a whole number of at least 1{instead}"
    minutes: dict[str, float | None] = {
        "agent.timeout_min": config.agent.timeout_min,
        "judge.timeout_min": config.judge.timeout_min,
        "trainer.call_timeout_min": trainer.call_timeout_min,
    }
    for key, value in minutes.items():
        if value is not None and value <= 0:
            yield key, value, "minutes, more than 0"
    if trainer.retries < 0:
        yield "trainer.retries", trainer.retries, "0 or more"
    if not 0 <= trainer.coverage_min <= 1:
        yield "trainer.coverage_min", trainer.coverage_min, "a share from 0 to 1"


def _check_names(config: TrainingConfig) -> None:
    trainer = config.trainer
    _check_choice("trainer.resume_mode", trainer.resume_mode, RESUME_MODES)
    _check_choice("trainer.executor", trainer.executor, EXECUTORS)
    _check_choice("unknown_price", config.unknown_price, UNKNOWN_PRICE)
    name = trainer.run_name
    if not _RUN_NAME.fullmatch(name) or ".." in name or name.endswith((".lock", ".")):
        raise UsageFault(
            f"trainer.run_name: {name!r} cannot name a directory and a branch",
            "expected letters, digits, '_', '-' and '.', at most 81, beginning with a letter or digit",
        )
    if name in _TAKEN:
        raise UsageFault(f"trainer.run_name: {name!r} is a name of the tree's own", "choose another one")
    if config.judge.path is None:
        _check_choice("judge.name", config.judge.name, tuple(JUDGES))
        check_params("judge.params", config.judge.params, JUDGES[config.judge.name])
    elif not config.judge.name.isidentifier():
        raise UsageFault(f"judge.name: {config.judge.name!r} is no name of a function")


def _check_choice(key: str, found: str, known: tuple[str, ...]) -> None:
    if found not in known:
        near = difflib.get_close_matches(found, known, n=1)
        raise UsageFault(
            f"{key}: expected one of {', '.join(known)}, found {found!r}",
            f"did you mean {near[0]}?" if near else None,
        )


def _check_places(config: TrainingConfig) -> None:
    """The run's directory and the tree must not lie in each other."""
    trainer = config.trainer
    run, tree = Path(trainer.output_dir, trainer.run_name), Path(trainer.tree_dir)
    if run == tree or run in tree.parents or tree in run.parents:
        raise UsageFault(
            f"trainer.tree_dir: {tree} and the run's directory {run} lie in each other",
            "choose another trainer.run_name or trainer.tree_dir",
        )


def _check_parts(config: TrainingConfig) -> None:
    for key, name, plain, example in (
        ("agent.name", config.agent.name, (CHAT,), "FILE.py:FUNCTION or MODULE:FUNCTION"),
        ("evolver.name", config.evolver.name, LEARNERS, "FILE.py:CLASS or MODULE:CLASS"),
    ):
        home, colon, last = name.rpartition(":")
        named = home and last.isidentifier() and colon
        if name not in plain and not name.startswith(COMMAND) and not named:
            expected = f"expected {', '.join(plain)}, {example}, or command:CMD"
            raise UsageFault(f"{key}: found {name!r}", expected)
        if name.startswith(COMMAND) and not name.removeprefix(COMMAND).strip():
            raise UsageFault(f"{key}: command: names no command", "for example command:python part.py")
    if config.evolver.name == "gepa" and config.data.val is None:
        raise UsageFault(
            "evolver.name: gepa chooses among candidates by validation tasks, and there are none",
            "set data.val",
        )


def _check_caps(config: TrainingConfig) -> None:
    budget = config.trainer.budget
    amounts: dict[str, float | None] = {
        "usd": budget.usd, "tokens": budget.tokens, "calls": budget.calls, "hours": budget.hours,
        "step_usd": budget.step_usd, **{f"role_usd.{role}": usd for role, usd in budget.role_usd.items()},
    }  # fmt: skip
    for name, amount in amounts.items():
        if amount is not None and not 0 < amount <= (
            _MOST_TOKENS if name in {"tokens", "calls"} else _MOST_USD
        ):
            raise UsageFault(
                f"trainer.budget.{name}: expected an amount above 0, found {amount:g}", "null sets no cap"
            )
    for role in budget.role_usd:
        _check_choice("trainer.budget.role_usd", role, ROLES)
    reserve = budget.finalize_reserve_usd
    if reserve is not None and (budget.usd is None or not 0 <= reserve < budget.usd):
        raise UsageFault(
            f"trainer.budget.finalize_reserve_usd: {reserve:g} is kept back of trainer.budget.usd",
            "give trainer.budget.usd, and less than that here",
        )
    for key, bound in (("agent.bound", config.agent.bound), ("evolver.bound", config.evolver.bound)):
        given = bound or BoundConfig()
        for name, most in (("usd", given.usd), ("tokens", given.tokens)):
            if most is not None and not 0 <= most <= (_MOST_TOKENS if name == "tokens" else _MOST_USD):
                raise UsageFault(f"{key}.{name}: expected 0 or more, found {most:g}")


def check_no_secret(key: str, value: Any) -> None:
    """Refuse what looks like a key: the configuration is in the log."""
    if isinstance(value, dict):
        for name, one in value.items():
            if isinstance(one, str) and one and not one.startswith("$") and _SECRET_NAME.fullmatch(str(name)):
                raise _secret(f"{key}.{name}")
            check_no_secret(f"{key}.{name}", one)
    elif isinstance(value, list):
        for number, one in enumerate(value):
            check_no_secret(f"{key}[{number}]", one)
    elif isinstance(value, str) and (looks_like_a_key(value, in_text=True) or _has_key_in_address(value)):
        raise _secret(key)


def _has_key_in_address(value: str) -> bool:
    """Whether a text is an address that carries a key behind its question mark."""
    query = value.partition("?")[2] if "://" in value else ""
    return any(_SECRET_NAME.fullmatch(name) or name in _KEY_NAMES for name, _ in parse_qsl(query))


def _secret(key: str) -> UsageFault:
    return UsageFault(
        f"{key}: refused, because this looks like a secret: it would be in the log",
        "put it into an environment variable, and name the variable (api_key_env) or read it in your code",
    )
