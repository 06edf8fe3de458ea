"""What a training run was told: the keys of run.yaml, resolved. Names are the keys; see docs/training.md.

Paths are absolute. Nothing here is a secret: an API key is named by its variable.
"""

from typing import Any

import msgspec

CHAT = "chat"


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of the configuration."""


class DataConfig(_Section, frozen=True, kw_only=True):
    """Tasks (JSON lines with a unique `id`) and the splits of them (files of one id a line)."""

    tasks: str
    train: str
    val: str | None = None
    test: str | None = None
    step_size: int = 8
    shuffle: bool = True
    shuffle_seed: int = 0


class BoundConfig(_Section, frozen=True, kw_only=True):
    """The most that one rollout, or one call of the learner, spends by itself outside evrun."""

    usd: float | None = None
    tokens: int | None = None


class AgentConfig(_Section, frozen=True, kw_only=True):
    """Who works on tasks: ``chat``, ``FILE.py:NAME``, ``MODULE:NAME`` or ``command:CMD``."""

    name: str = CHAT
    concurrency: int = 4
    timeout_min: float | None = None
    params: dict[str, Any] = {}
    bound: BoundConfig | None = None


class JudgeConfig(_Section, frozen=True, kw_only=True):
    """Who scores an output: a function `name` in the file `path`; without a path a built-in judge."""

    path: str | None = None
    name: str = "score"
    timeout_min: float | None = None
    params: dict[str, Any] = {}


class EvolverConfig(_Section, frozen=True, kw_only=True):
    """Who learns: ``FILE.py:CLASS``, ``command:CMD``, ``reflect`` or ``gepa``."""

    name: str
    resume: bool = False
    params: dict[str, Any] = {}
    bound: BoundConfig | None = None


class SaveFreqConfig(_Section, frozen=True, kw_only=True):
    """How often a checkpoint is tagged: every so many steps, every so many epochs; null: never."""

    steps: int | None = None
    epochs: int | None = 1


class BudgetConfig(_Section, frozen=True, kw_only=True):
    """Caps; null: none. `role_usd` is by role: rollout, judge, learner, evaluation."""

    usd: float | None = None
    tokens: int | None = None
    calls: int | None = None
    hours: float | None = None
    step_usd: float | None = None
    role_usd: dict[str, float] = {}
    finalize_reserve_usd: float | None = None


class TrainerConfig(_Section, frozen=True, kw_only=True):
    """How the run goes."""

    run_name: str
    output_dir: str
    tree_dir: str
    epochs: int = 1
    allow_early_stop: bool = False
    resume_mode: str = "auto"
    save_freq: SaveFreqConfig = SaveFreqConfig()
    budget: BudgetConfig = BudgetConfig()
    call_timeout_min: float = 60.0
    retries: int = 2
    coverage_min: float = 0.5
    executor: str = "local"
    ray_address: str | None = None


class EvalConfig(_Section, frozen=True, kw_only=True):
    """How an adapter is evaluated on the test split."""

    repeats: int = 1


class TrainingConfig(_Section, frozen=True, kw_only=True):
    """All of run.yaml. `template` is ``id@version`` or a directory; `prices` as ``MODEL=INPUT,OUTPUT``."""

    data: DataConfig
    task_info: str | None = None
    agent: AgentConfig = AgentConfig()
    judge: JudgeConfig
    template: str
    start_from: str | None = None
    evolver: EvolverConfig
    model: str | None = None
    backends: dict[str, dict[str, Any]] = {}
    llm: str | dict[str, Any] | None = None
    trainer: TrainerConfig
    eval: EvalConfig = EvalConfig()
    prices: list[str] = []
    unknown_price: str = "refuse"
