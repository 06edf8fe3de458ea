"""A projection of one's own: of several samples of a prompt the best and the worst, for preference training.

`evrun project RUN preference_pairs.py:PreferencePairs -o pairs.jsonl`, of a run with `--samples 2` or more.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from eventlog.events import PromptsPlanned, Recorded, TrajectoryCompleted, TrajectoryDiscarded
from projections import RunState, conversation_messages, loads_lenient, request_messages, unit_name

Messages = list[dict[str, Any]]


class Sample(NamedTuple):
    """A sample's whole conversation, and the judge's score, if there is a judge."""

    score: float | None
    messages: Messages


class State(NamedTuple):
    """evrun's own fold, on which this one builds; the rows by prompt, and the samples by unit."""

    run: RunState
    rows: dict[str, bytes]
    samples: dict[str, Sample]


class PreferencePairs:
    """One pair a prompt: better is the higher score; where some have none, kept over discarded."""

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
                    row = loads_lenient(state.rows[prompt_of(unit)])
                    told = conversation_messages(row, state.run.batch.settings, attempt)
                    state.samples[unit] = Sample(attempt.score, request_messages(told, {}))
            case _:
                pass
        state.run.apply(record)

    def render(self, state: State) -> Iterator[dict[str, Any]]:
        """One line a pair."""
        of_prompt: defaultdict[str, list[tuple[bool, Sample]]] = defaultdict(list)
        for name, unit in state.run.batch.units.items():
            if unit.outcome in {"kept", "discarded"} and name in state.samples:
                of_prompt[prompt_of(name)].append((unit.outcome == "kept", state.samples[name]))
        for samples in of_prompt.values():
            worth = worth_by_score if all_scored(samples) else worth_by_outcome
            worst, best = min(samples, key=worth), max(samples, key=worth)
            if worth(worst) < worth(best):
                yield from pair(best[1].messages, worst[1].messages)


def all_scored(samples: list[tuple[bool, Sample]]) -> bool:
    """Whether the judge's scores alone can rank them."""
    return all(sample.score is not None for _, sample in samples)


def worth_by_score(one: tuple[bool, Sample]) -> tuple[float, bool]:
    """How good a scored sample is; of equal scores, kept over discarded."""
    return one[1].score or 0.0, one[0]


def worth_by_outcome(one: tuple[bool, Sample]) -> tuple[float, float]:
    """How good a sample is where some have no score: kept over discarded, then the score."""
    return float(one[0]), one[1].score or 0.0


def pair(better: Messages, worse: Messages) -> Iterator[dict[str, Any]]:
    """The pair of two conversations; none where one says nothing that the other does not say."""
    same = 0
    while same < min(len(better), len(worse)) and better[same] == worse[same]:
        same += 1
    if same < min(len(better), len(worse)):
        yield {"prompt": better[:same], "chosen": better[same:], "rejected": worse[same:]}


def prompt_of(unit: str) -> str:
    """A unit's name without its sample."""
    return unit.rpartition(".")[0]
