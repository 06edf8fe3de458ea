"""Prompts that end their workers, and those that are worked on beside them."""

import pytest

from eventlog.events import BudgetReserved, PromptFailed, PromptsPlanned
from evrun.executors.losses import ALONE_AFTER, MOST_LOST
from tests.endpoint.client import running_endpoint
from tests.executors.here import Here, batch, rows
from tests.executors.test_nodes import events_of

TOGETHER = 4
PROMPTS = ["poison", *(f"prompt {number}" for number in range(9))]


@pytest.fixture(autouse=True)
def _look_often(monkeypatch):
    """Nodes are looked at more often than on a real cluster."""
    monkeypatch.setattr("evrun.executors.pool.LOOK_S", 0.1)


class Poison:
    """The first prompt of a run ends each worker that asks for it, once the worker has all it will get."""

    def __init__(self, cluster, endpoint):
        self._cluster = cluster
        self._endpoint = endpoint
        self._unit = None
        self._asking = set()
        self.beside = []
        """How many other prompts each worker had that was lost."""

    def see(self, record):
        """An event of the run."""
        event = record.event
        if isinstance(event, PromptsPlanned):
            self._unit = f"prompt:{event.rows[0].content.hex()}#1.1"
        if isinstance(event, BudgetReserved):
            self._asking.add(event.unit)
            if self._unit in self._asking and len(self._asking) >= self._together():
                self._strike()

    def _together(self):
        return TOGETHER if len(self.beside) < ALONE_AFTER else 1

    def _strike(self):
        line = self._cluster.lines[-1]
        self.beside.append(len(line.worker._links) - 1)
        self._asking.clear()
        if len(self.beside) == ALONE_AFTER:
            self._endpoint.set_rules([])
        line.kill()


def test_a_prompt_that_ends_its_workers_takes_nobody_with_it(tmp_path):
    """What was lost with it twice is worked on alone: it fails at the third, all others are kept."""
    never = [{"then": {"latency_ms": 60_000}}]
    with running_endpoint(rules=never) as endpoint:
        cluster = Here(1)
        poison = Poison(cluster, endpoint)
        result, _ = batch(
            rows(tmp_path, *PROMPTS), tmp_path, cluster, base_url=endpoint.base_url, concurrency=TOGETHER,
            see=poison.see,
        )  # fmt: skip
    assert poison.beside == [TOGETHER - 1, TOGETHER - 1, 0]
    assert result.state.batch.counts["kept"] == len(PROMPTS) - 1
    (failed,) = [event for event in events_of(tmp_path / "r") if isinstance(event, PromptFailed)]
    assert failed.error_class == "worker_lost"
    assert f"{MOST_LOST} workers were lost while they worked on it" in failed.message
