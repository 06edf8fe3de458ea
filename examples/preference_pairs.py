"""A projection of one's own: of several samples of a prompt the best and the worst, for preference training.

`evrun project RUN preference_pairs.py:PreferencePairs -o pairs.jsonl`, of a run with `--samples 2` or more.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from eventlog.events import PromptsPlanned, Recorded, TrajectoryCompleted, TrajectoryDiscarded
from projections import RunState, attempt_messages, request_messages, row_messages, unit_name

Messages = list[dict[str, Any]]


class Sample(NamedTuple):
    """What a sample came to say, and the judge's score, if there is a judge."""

    score: float | None
    said: Messages


class State(NamedTuple):
    """evrun's own fold, on which this one builds; the rows by prompt, and the samples by unit."""

    run: RunState
    rows: dict[str, bytes]
    samples: dict[str, Sample]


class PreferencePairs:
    """One pair a prompt: better is the higher score of a judge; where there is none, kept over discarded."""

    def initial(self) -> State:
        """Nothing yet."""
        return State(RunState(), {}, {})

    def apply(self, state: State, record: Recorded) -> None:
        """Remember rows, and conversations as they end."""
        match record.event:
            case PromptsPlanned(rows=rows):
                for row in rows:
                    state.rows[prompt_of(unit_name(row.content, row.occurrence, 1))] = row.row
            case TrajectoryCompleted(unit=unit) | TrajectoryDiscarded(unit=unit):
                # It is open until evrun's fold sees its end.
                attempt = state.run.batch.open.get(unit)
                if attempt is not None:
                    state.samples[unit] = Sample(attempt.score, sent(attempt_messages(attempt)))
            case _:
                pass
        state.run.apply(record)

    def render(self, state: State) -> Iterator[dict[str, Any]]:
        """One line a pair."""
        of_prompt: defaultdict[str, list[tuple[float, str]]] = defaultdict(list)
        for name, unit in state.run.batch.units.items():
            if unit.outcome in {"kept", "discarded"} and name in state.samples:
                score = state.samples[name].score
                worth = float(unit.outcome == "kept") if score is None else score
                of_prompt[prompt_of(name)].append((worth, name))
        for prompt, found in of_prompt.items():
            (low, worst), (high, best) = min(found), max(found)
            if low < high:
                asked = row_messages(json.loads(state.rows[prompt]), state.run.batch.settings)
                chosen, rejected = state.samples[best].said, state.samples[worst].said
                yield {"prompt": sent(asked), "chosen": chosen, "rejected": rejected}


def prompt_of(unit: str) -> str:
    """A unit's name without its sample."""
    return unit.rpartition(".")[0]


def sent(messages: list[Any]) -> Messages:
    """Messages as they go to a model."""
    return request_messages(messages, {})
