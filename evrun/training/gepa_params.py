"""``evolver.params`` of `gepa`; here, so that they are known where the package is not installed."""

from typing import Literal

import msgspec


class Params(msgspec.Struct, frozen=True, kw_only=True):
    """``evolver.params`` of `gepa`.

    `files`: patterns of the files to rewrite, all learnable ones where empty; each is a component of GEPA's.
    `candidate_selection_strategy`, `skip_perfect_score`, `perfect_score`, `acceptance_criterion`,
    `reflection_prompt_template` (with <curr_param> and <side_info>) and `seed` are the package's.
    `trace_chars`: how much of each text of a task the model is shown. `model`, `max_tokens` and `temperature`
    are of its calls.
    """

    files: list[str] = []
    candidate_selection_strategy: Literal["pareto", "current_best", "epsilon_greedy", "top_k_pareto"] = (
        "pareto"
    )
    skip_perfect_score: bool = True
    perfect_score: float = 1.0
    acceptance_criterion: Literal["strict_improvement", "improvement_or_equal"] = "strict_improvement"
    reflection_prompt_template: str | None = None
    trace_chars: int = 2000
    seed: int = 0
    model: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
