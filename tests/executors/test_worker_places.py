"""What workers leave on their nodes: nothing, whatever ended them; what programs said is with the run."""

import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager

import pytest

from eventlog.events import BudgetReserved
from evrun.effects.secrets import MARKER_VARIABLE
from evrun.executors.worker_place import PREFIX, WorkerPlace, clear_dead
from tests.endpoint.client import running_endpoint
from tests.executors.here import Here, batch, rows
from tests.runs import ROOT

WRITE = {"name": "terminal", "arguments": {"command": "mkdir d; touch d/f; chmod 500 d"}}
TOOLS = [{"match": {"turn": 1}, "then": {"tool_calls": [WRITE]}}]
PROGRAM = "import os\nprint('said', os.environ['EVRUN_PROMPT'], 'é' * 50_000)\nraise SystemExit(1)\n"
LIVING = (
    "import sys\n"
    "from evrun.executors.worker_place import WorkerPlace\n"
    "with WorkerPlace(sys.argv[1]) as place:\n"
    "    place.make()\n"
    "    (place.path / 'work').mkdir()\n"
    "    print(place.path, flush=True)\n"
    "    sys.stdin.read()\n"
)


@pytest.fixture(name="node", autouse=True)
def _node(tmp_path, monkeypatch):
    """Where workers of a test have their directories."""
    node = tmp_path / "node"
    node.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(node))
    return node


def places_on(node):
    """The directories of workers."""
    return [place.name for place in node.glob(f"{PREFIX}*")]


@contextmanager
def living(marker, node):
    """A process that has the directory of a worker, and that directory's name."""
    process = subprocess.Popen(
        [sys.executable, "-c", LIVING, marker],
        cwd=ROOT, env={**os.environ, "TMPDIR": str(node)}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process, process.stdout.readline().strip().rpartition("/")[2]
    finally:
        process.kill()
        process.communicate()


def killed(marker, node):
    """The name of the directory of a worker that was killed."""
    with living(marker, node) as (_, name):
        pass
    return name


def test_a_session_that_has_ended_leaves_nothing_on_its_node(node, tmp_path):
    """When the next one asks its model, the directory of the last is gone, read-only as parts of it were."""
    seen = []

    def see(record):
        if isinstance(record.event, BudgetReserved):
            seen.append({place.name for place in node.glob(f"{PREFIX}*/work/*")})

    dataset = rows(tmp_path, "one", "two")
    with running_endpoint(rules=TOOLS) as endpoint:
        result, _ = batch(
            dataset,
            tmp_path,
            Here(1),
            base_url=endpoint.base_url,
            concurrency=1,
            toolsets=["terminal"],
            see=see,
        )
    assert result.state.batch.counts["kept"] == 2
    assert [len(there) for there in seen] == [0, 1] * 2


@pytest.mark.parametrize("agent", ["chat", "command"])
def test_workers_that_are_told_to_end_leave_nothing(node, tmp_path, agent):
    """They are told so at the end of a run, and end by themselves; so their directories are gone."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    given = {} if agent == "chat" else {"agent": f"command:{sys.executable} {program}"}
    cluster, seen = Here(2, 2, together=2), []

    def see(_):
        seen.extend(places_on(node))

    with running_endpoint() as endpoint:
        batch(
            rows(tmp_path, "one", "two"), tmp_path, cluster, base_url=endpoint.base_url, concurrency=2,
            see=see, **given,
        )  # fmt: skip
    assert len(set(seen)) == 2
    assert places_on(node) == []
    assert [line.ended for line in cluster.lines] == [True, True]


def test_what_a_program_said_is_where_a_local_run_has_it(tmp_path):
    """The same files with the same bytes in `work/`, bounded alike, and nothing beside them."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    dataset, agent = rows(tmp_path, "one", "two"), f"command:{sys.executable} {program}"
    with running_endpoint() as endpoint:
        for name, cluster in (("local", None), ("away", Here(1))):
            batch(dataset, tmp_path / name, cluster, base_url=endpoint.base_url, agent=agent)
    local, away = tmp_path / "local/r/work", tmp_path / "away/r/work"
    said = {path.relative_to(local): path.read_bytes() for path in local.rglob("output.txt")}
    assert len(said) == 2
    assert {path.relative_to(away): path.read_bytes() for path in away.rglob("*") if path.is_file()} == said
    assert all(text.startswith(b"said ") and len(text) == 65_536 for text in said.values())


def test_a_new_worker_removes_what_killed_ones_left(node):
    """Also those of other runs; never one whose worker lives, whosever it is, nor one without an owner."""
    dead = {killed("run/s1n1", node), killed("another/s1n1", node)}
    (node / f"{PREFIX}just-made").mkdir()
    with living("run/s1n2", node) as (_, mine), living("another/s1n2", node) as (_, others):
        assert {*places_on(node)} == {*dead, mine, others, f"{PREFIX}just-made"}
        clear_dead("run")
        assert {*places_on(node)} == {mine, others, f"{PREFIX}just-made"}


def test_what_a_killed_worker_had_started_is_ended_with_its_directory(node):
    """Its own run's worker ends it; while it is there, a worker of another run leaves the directory alone."""
    name = killed("run/s1n1", node)
    left = subprocess.Popen(
        ["sleep", "60"], env={**os.environ, MARKER_VARIABLE: "run/s1n1/x-a1"}, start_new_session=True
    )
    clear_dead("another")
    assert places_on(node) == [name]
    assert left.poll() is None
    clear_dead("run")
    assert places_on(node) == []
    assert left.wait() < 0


def test_a_run_whose_workers_were_killed_is_cleared_by_the_next_session(node, tmp_path):
    """A worker that opens removes what a killed one of the same run has left on its node."""
    left = []

    def at_open(opening):
        if not left:
            left.append(killed(f"{opening.marker}/s0n1", node))
        return opening

    with running_endpoint() as endpoint:
        batch(rows(tmp_path, "one"), tmp_path, Here(1, at_open=at_open), base_url=endpoint.base_url)
    assert len(left) == 1
    assert places_on(node) == []


def test_a_worker_has_a_directory_of_its_own_once_it_has_work(node):
    """Two of one run never share one, each says whose it is, and is gone with its context."""
    with WorkerPlace("run/s1n1") as one, WorkerPlace("run/s1n2") as other, WorkerPlace("run/s1n3"):
        assert places_on(node) == []
        for place in (one, other, one):
            place.make()
        clear_dead("run")
        assert {*places_on(node)} == {one.path.name, other.path.name}
        assert [(place.path / "owner").read_text() for place in (one, other)] == ["run/s1n1", "run/s1n2"]
    assert places_on(node) == []
