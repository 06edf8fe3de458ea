"""What a run says while nobody can work for it."""

import pytest

from eventlog.events import ModelAnswered
from evrun.executors import waiting
from evrun.executors.waiting import PATIENCE_S, PAUSE_S, Waiting
from tests.endpoint.client import running_endpoint
from tests.executors.here import Here, batch, rows


@pytest.fixture(name="clock")
def _clock(monkeypatch):
    """The time, which only the test moves."""
    clock = [0.0]
    monkeypatch.setattr(waiting, "monotonic", lambda: clock[0])
    return clock


def test_what_is_waited_for_is_said_once_and_again_when_it_has_changed(clock):
    """Not at once, not twice, and not more often than each half minute."""
    said = []
    wait = Waiting(said.append)
    told = {}
    for second in range(int(PATIENCE_S + 3 * PAUSE_S)):
        clock[0] = float(second)
        wait.look("no node" if second < PATIENCE_S + 5 else "2 nodes")
        told.setdefault(len(said), second)
    assert said == ["waiting for a worker: no node", "waiting for a worker: 2 nodes"]
    assert told == {0: 0, 1: PATIENCE_S, 2: PATIENCE_S + PAUSE_S}


def test_what_is_soon_over_is_not_said(clock):
    """A worker that comes in time ends the waiting, which begins anew with the next."""
    said = []
    wait = Waiting(said.append)
    for second in range(100):
        clock[0] = float(second)
        wait.look("no node" if second % int(PATIENCE_S) else None)
    assert said == []


@pytest.fixture(name="hasty")
def _hasty(monkeypatch):
    """All that a run waits for on a cluster is over soon."""
    for name, seconds in (("pool.LOOK_S", 0.05), ("pool.GIVE_UP_S", 0.6), ("waiting.PATIENCE_S", 0.1)):
        monkeypatch.setattr(f"evrun.executors.{name}", seconds)


@pytest.mark.usefixtures("hasty")
def test_a_run_without_a_free_cpu_says_so_while_it_waits(tmp_path):
    """Two nodes that have no CPU to give: one word about it, before the run gives up."""
    result, notes = batch(rows(tmp_path, "one"), tmp_path, Here(0, 0), base_url="http://127.0.0.1:9/v1")
    assert result.exit_code == 1
    assert notes.count("waiting for a worker: 2 nodes, none with a free CPU so far") == 1


class Deaf(Here):
    """Answers nothing any more once it is `gone`; its workers neither work on nor break."""

    gone = False

    async def places(self):
        """The nodes, as long as it answers."""
        return None if self.gone else await super().places()


@pytest.mark.usefixtures("hasty")
def test_a_cluster_that_does_not_answer_ends_the_run_though_its_workers_seem_whole(tmp_path):
    """Calls that would never come back are in doubt; exit code 1, with the reason."""
    cluster = Deaf(1)

    def see(record):
        cluster.gone = cluster.gone or isinstance(record.event, ModelAnswered)

    never = [{"match": {"contains": "two"}, "then": {"latency_ms": 60_000}}]
    dataset = rows(tmp_path, "one", "two")
    with running_endpoint(rules=never) as endpoint:
        result, notes = batch(
            dataset, tmp_path, cluster, base_url=endpoint.base_url, concurrency=1, see=see
        )  # fmt: skip
    assert (result.exit_code, result.name) == (1, "failed")
    assert "the cluster does not answer" in result.reason
    assert result.state.ledger.reserved == {}
    assert any("waiting for a worker: the cluster does not answer" in note for note in notes)
