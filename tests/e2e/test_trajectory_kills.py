"""A trajectory of ten model calls and nine tool calls, stopped after each of its events in turn.

Once as pictures of the run's directory, taken in the moment in which an event is durable, which is what a
kill then leaves; and for some by real kills (`EVRUN_TRAJECTORY_KILLS`, default 4; 52 are all there are).
"""

import os
import shutil
from collections import Counter
from functools import partial

import anyio
import msgspec
import pytest

from eventlog.events import ModelAnswered, SpendInDoubt, ToolFinished, ToolStarted
from evrun.batch import Options, run_batch
from evrun.tools import BUILT_IN
from evrun.tools.base import Tool, Toolset, parameters
from tests.e2e.case import Case
from tests.endpoint.client import running_endpoint
from tests.evrun.acting import events_in
from tests.runs import ROOT, evrun, finish, rows_of, start

TURNS = 10
KILLS = int(os.environ.get("EVRUN_TRAJECTORY_KILLS", "4"))
DIARY = "diary.txt"
SETTINGS = {"model": "m", "max_turns": 12, "max_tokens": 100, "prices": ["m=1,10"]}


def rules_of(tool, **arguments):
    """Nine turns of one tool call each; the tenth is the end."""
    return [
        {
            "match": {"turn": turn},
            "then": {"tool_calls": [{"name": tool, "arguments": {**arguments, "line": f"turn {turn}"}}]},
        }
        for turn in range(1, TURNS)
    ]


class Camera:
    """Takes a picture of a run's directory after each event, and within each tool call."""

    def __init__(self, run, pictures):
        self.run, self.pictures, self.sequences = run, pictures, {}

    def take(self, name, sequence):
        """The directory as it is now."""
        where = self.pictures / name / "r"
        shutil.copytree(self.run, where)
        self.sequences[name] = sequence

    def see(self, record):
        """An event is durable and folded; nothing that waits for it has gone on."""
        self.take(f"{record.sequence:03}-{type(record.event).__name__}", record.sequence)

    def note(self, text):
        """Say nothing."""

    def progress(self, state):
        """Show nothing."""


class Quiet:
    """Nobody looks."""

    see = None
    note = progress = staticmethod(lambda _: None)


@pytest.fixture(name="diary")
def _diary(monkeypatch):
    """A tool that is safe to repeat and writes a line each time it runs; the list is called then."""
    hooks = []

    async def write(arguments, context):
        with (context.workdir / DIARY).open("a") as file:
            file.write(arguments["line"] + "\n")
        for hook in hooks:
            hook(arguments["line"])
        return {"error": None, "written": arguments["line"]}

    schema = parameters({"line": {"type": "string"}})
    tool = Tool("note", "Write a line.", schema, write, safe_to_repeat=True, concurrent=False)
    monkeypatch.setitem(BUILT_IN, "diary", Toolset("diary", (tool,)))
    return hooks


def work(output, base_url, dataset, ui, *, resume):
    """One session."""
    given = {**SETTINGS, "base_url": base_url, "toolsets": ["diary"]}
    options = Options(run_name="r", output_dir=output, resume=resume, dataset=dataset, given=given)
    return anyio.run(partial(run_batch, options, {}, ui))


def diary_of(run):
    """The lines that the tool wrote, over all attempts."""
    return Counter("".join(path.read_text() for path in run.glob(f"work/*/{DIARY}")).splitlines())


def conversation_of(run):
    """The trajectory, without what says when and how long."""
    (row,) = rows_of(run / "trajectories.jsonl")
    kept = ("conversations", "api_calls", "completed", "partial", "tool_stats", "toolsets_used", "attempt")
    return {name: row[name] for name in kept}


def test_whatever_event_a_run_stops_after_nothing_answered_is_asked_and_nothing_finished_is_run_again(
    tmp_path, diary
):
    """Resumed from each picture: only what is missing is asked and run, and the trajectory is the same."""
    dataset = tmp_path / "d.jsonl"
    dataset.write_text('{"prompt": "p"}\n')
    with running_endpoint(rules=rules_of("note")) as endpoint:
        camera = Camera(tmp_path / "data/r", tmp_path / "pictures")
        diary.append(lambda line: camera.take(f"in {line}", None))
        assert work(tmp_path / "data", endpoint.base_url, dataset, camera, resume=False).exit_code == 0
        diary.clear()
        whole = conversation_of(tmp_path / "data/r")
        assert len(endpoint.requests()) == TURNS
        assert diary_of(tmp_path / "data/r") == {f"turn {n}": 1 for n in range(1, TURNS)}
        kinds = Counter(name.partition("-")[2] for name in camera.sequences)
        assert (kinds["ModelAnswered"], kinds["ToolStarted"], kinds["ToolFinished"]) == (10, 9, 9)

        for name in camera.sequences:
            output = tmp_path / "pictures" / name
            before = events_in(output / "r")
            asked = len(endpoint.requests())
            result = work(output, endpoint.base_url, dataset, Quiet(), resume=True)
            assert (result.name, result.exit_code) == ("done", 0), name
            check_resumed(output / "r", before, endpoint.requests()[asked:], name)
            assert conversation_of(output / "r") == whole, name


def check_resumed(run, before, asked, name):
    """Nothing answered was asked again, nothing finished was run again, and the account says so."""
    answered = sum(isinstance(event, ModelAnswered) for event in before)
    assert [request["turn"] for request in asked] == list(range(answered + 1, TURNS + 1)), name
    after = events_in(run)
    finished = Counter((event.turn, event.position) for event in after if isinstance(event, ToolFinished))
    assert finished == {(turn, 0): 1 for turn in range(1, TURNS)}, name
    # A tool that was cut short after it had written wrote twice: it is safe to repeat, and only that one.
    again = {name.removeprefix("in ")} if name.startswith("in ") else set()
    assert diary_of(run) == {f"turn {n}": 2 if f"turn {n}" in again else 1 for n in range(1, TURNS)}, name
    doubts = [event.call for event in after if isinstance(event, SpendInDoubt)]
    assert len(doubts) == ("BudgetReserved" in name or "PromptStarted" in name), name


def test_an_interrupted_tool_that_is_not_safe_to_repeat_is_never_run_again(tmp_path, diary, monkeypatch):
    """Its attempt is closed as superseded, its cost kept; another begins in a directory of its own."""
    (tool,) = BUILT_IN["diary"].tools
    unsafe = msgspec.structs.replace(tool, safe_to_repeat=False)
    monkeypatch.setitem(BUILT_IN, "diary", Toolset("diary", (unsafe,)))
    dataset = tmp_path / "d.jsonl"
    dataset.write_text('{"prompt": "p"}\n')
    with running_endpoint(rules=rules_of("note")) as endpoint:
        camera = Camera(tmp_path / "data/r", tmp_path / "pictures")
        diary.append(lambda line: camera.take(f"in {line}", None))
        work(tmp_path / "data", endpoint.base_url, dataset, camera, resume=False)
        diary.clear()
        started = [name for name in camera.sequences if "ToolStarted" in name]
        for name in ("in turn 4", started[3]):
            output = tmp_path / "pictures" / name
            asked = len(endpoint.requests())
            result = work(output, endpoint.base_url, dataset, Quiet(), resume=True)
            batch, total = result.state.batch, result.state.ledger.total
            assert (result.exit_code, batch.superseded_attempts) == (0, 1)
            assert batch.superseded_nano_usd > 0
            assert total.settled_calls == 4 + TURNS
            assert len(endpoint.requests()) - asked == TURNS
            first = [path.read_text() for path in output.glob(f"r/work/*-a1/{DIARY}")]
            assert first == ["".join(f"turn {n}\n" for n in range(1, 5 if "in" in name[:2] else 4))]


def real_points():
    """Where real processes are killed: spread over the run's events, some each time."""
    last = 4 + 3 * TURNS + 2 * (TURNS - 1)
    return sorted({3 + (last - 3) * n // max(KILLS - 1, 1) for n in range(KILLS)})


@pytest.mark.parametrize("sequence", real_points())
def test_a_process_killed_after_an_event_is_resumed_to_the_same_trajectory(tmp_path, sequence):
    """By kill -9 in the moment in which the event is durable; tools write files."""
    rules = [
        {
            "match": {"turn": turn},
            "then": {
                "tool_calls": [{"name": "write_file", "arguments": {"path": f"f{turn}", "content": "x"}}]
            },
        }
        for turn in range(1, TURNS)
    ]
    with running_endpoint(rules=rules) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "file", "--max-turns", 12)
        case.write("p")
        dying = f"{ROOT}/tests/e2e/dying:{ROOT}"
        died = finish(start(*case.command(), cwd=tmp_path, PYTHONPATH=dying, DIE_AT_SEQUENCE=str(sequence)))
        assert died.code == -9, died
        before = events_in(case.run_directory)
        asked = len(endpoint.requests())
        ended = evrun("run", case.dataset, "--run-name", "r", "--resume", "--json", cwd=tmp_path)
        assert ended.code == 0, ended
        answered = sum(isinstance(event, ModelAnswered) for event in before)
        turns = [request["turn"] for request in endpoint.requests()[asked:]]
        assert turns == list(range(answered + 1, TURNS + 1))
    events = events_in(case.run_directory)
    ran = Counter(event.turn for event in events if isinstance(event, ToolFinished))
    assert ran == dict.fromkeys(range(1, TURNS), 1)
    assert sum(isinstance(event, ToolStarted) for event in events) <= TURNS
    (row,) = case.rows()
    assert (row["api_calls"], row["attempt"], row["tool_stats"]["write_file"]["success"]) == (TURNS, 1, 9)
