"""`evrun project`: a fold of the user's own over a run's events; its errors are told with their place."""

import json
import subprocess
from pathlib import Path

import pytest

from eventlog.storage import LogReader
from projections import FoldFailed, fold_events, project
from tests.cli.shell import ENVIRONMENT, EVRUN, evrun
from tests.exports import judged, make_run, story
from tests.house import ROOT

FOLDS = """
import time
from dataclasses import dataclass

from eventlog.events import PromptStarted


class Starts:
    def initial(self):
        return 0

    def apply(self, state, record):
        return state + isinstance(record.event, PromptStarted)

    def render(self, state):
        return state


class Names(Starts):
    def initial(self):
        return []

    def apply(self, state, record):
        state.append(f"{record.sequence} {type(record.event).__name__}")

    def render(self, state):
        yield from state
        yield {"events": len(state)}


@dataclass
class Own:
    starts: int = 0

    def apply(self, record):
        self.starts += isinstance(record.event, PromptStarted)

    def render(self):
        return f"{self.starts} starts"


class Bytes(Starts):
    def render(self, state):
        return b"\\xff%d" % state


class Impure(Starts):
    def render(self, state):
        return time.monotonic_ns()


class Breaks(Starts):
    def apply(self, state, record):
        return self.deeper(record) if record.sequence == 7 else state

    def deeper(self, record):
        return record.event.nothing_of_the_kind


class Forgets(Starts):
    def apply(self, state, record):
        state + 1


class BreaksLate(Starts):
    def render(self, state):
        yield "a line"
        raise ValueError("no more")


class Unshowable(Starts):
    def render(self, state):
        return {"an": object()}


class NoFold:
    def apply(self, record):
        pass
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with the rich run, and with folds in `folds.py`."""
    make_run(tmp_path / "data/r")
    (tmp_path / "folds.py").write_text(FOLDS, "utf-8")
    return tmp_path


def line_of(text: str) -> int:
    """The number of a line of `folds.py`."""
    return next(number for number, line in enumerate(FOLDS.splitlines(), 1) if text in line)


def test_a_fold_sees_every_event_and_what_it_shows_is_printed(place: Path) -> None:
    """A value as JSON, text as it is, an iterator line by line; the events up to a sequence where asked."""
    assert evrun("project", "r", "folds.py:Starts", cwd=place).out == "10\n"
    assert evrun("project", "r", "folds.py:Own", cwd=place).out == "10 starts\n"
    lines = evrun("project", "r", "folds.py:Names", "--to", 3, cwd=place).out.splitlines()
    assert lines == ["1 SessionOpened", "2 RunStarted", "3 PromptsPlanned", '{"events":3}']
    said = evrun("project", "r", "folds.py:Names", "--to", 1, "--json", cwd=place).json
    assert said == {
        "run": "r", "fold": "folds.py:Names", "sequence": 1, "shown": ["1 SessionOpened", {"events": 1}],
    }  # fmt: skip


def test_what_a_fold_shows_can_be_written_byte_by_byte(place: Path) -> None:
    """To a path, whole or not at all; bytes also on stdout."""
    assert evrun("project", "r", "folds.py:Bytes", "-o", "out", cwd=place).code == 0
    assert (place / "out").read_bytes() == b"\xff10"
    said = evrun("project", "r", "folds.py:Own", "-o", "out", cwd=place)
    assert (said.code, said.err) == (2, "evrun: -o out is there already\n  hint: --force replaces it\n")
    assert evrun("project", "r", "folds.py:BreaksLate", "-o", "out", "--force", cwd=place).code == 1
    assert (place / "out").read_bytes() == b"\xff10"
    assert sorted(path.name for path in place.iterdir() if path.name != "__pycache__") == [
        "data",
        "folds.py",
        "out",
    ]


@pytest.mark.parametrize(
    ("fold", "at", "says"),
    [
        ("Breaks", "return record.event.nothing", "apply of event 7 (ModelAnswered): AttributeError: "),
        ("BreaksLate", 'raise ValueError("no more")', "render: ValueError: no more"),
        ("Forgets", None, "apply of event 1 (SessionOpened): TypeError: returned None, and int cannot be"),
        ("Unshowable", None, "render: TypeError: Object of type object is not JSON serializable"),
    ],
)
def test_an_error_of_a_fold_is_told_with_file_line_and_event(
    place: Path, fold: str, at: str | None, says: str
) -> None:
    """Exit 1 and one line, no traceback through evrun."""
    said = evrun("project", "r", f"folds.py:{fold}", cwd=place)
    where = "folds.py" if at is None else f"folds.py, line {line_of(at)}"
    assert said.code == 1
    assert said.err.startswith(f"evrun: project {where}, {says}")


@pytest.mark.parametrize(
    ("fold", "says"),
    [
        ("folds.py:Gone", "there is no Gone in folds.py"),
        ("folds.py:NoFold", "the class has no render"),
        ("folds.py:time", "expected a class, found module"),
        ("gone.py:Fold", "there is no file gone.py"),
        ("folds.py", "expected FILE.py:NAME"),
        ("half.py:Fold", "half.py, line 2: SyntaxError: "),
        ("raises.py:Fold", "raises.py, line 1: ZeroDivisionError: "),
        ("eventlog.py:Fold", "hides evrun's own eventlog"),
    ],
)
def test_what_cannot_be_loaded_is_wrong_input(place: Path, fold: str, says: str) -> None:
    """Exit 2, with what was expected; a file of one of evrun's names is said to be one."""
    (place / "half.py").write_text("x = 1\nclass (\n", "utf-8")
    (place / "raises.py").write_text("1 / 0\n", "utf-8")
    (place / "eventlog.py").write_text("class Fold: pass\n", "utf-8")
    said = evrun("project", "r", fold, cwd=place)
    assert said.code == 2
    assert says in said.err


def test_check_finds_a_fold_that_depends_on_more_than_the_events(place: Path) -> None:
    """Folded twice: what shows the clock shows two things."""
    said = evrun("project", "r", "folds.py:Names", "--check", cwd=place)
    assert (said.code, said.out) == (0, "the same, twice\n")
    said = evrun("project", "r", "folds.py:Impure", "--check", "--json", cwd=place)
    assert (said.code, said.json["same"]) == (1, False)


def test_bytes_reach_stdout_unchanged(place: Path) -> None:
    """As a process of its own, with what is no UTF-8."""
    command = [*EVRUN, "project", "r", "folds.py:Bytes"]
    done = subprocess.run(command, cwd=place, env=ENVIRONMENT, capture_output=True, check=True)
    assert done.stdout == b"\xff10\n"


def test_a_fold_runs_from_python_too(place: Path) -> None:
    """The same functions on any log; an error has its own as its cause, and says where it was."""

    class Last:
        def initial(self) -> int:
            return 0

        def apply(self, state: int, record: object) -> int:
            return 1 // (5 - record.sequence) + record.sequence  # type: ignore[attr-defined]

        def render(self, state: int) -> str:
            return f"last {state}"

    with LogReader.open(place / "data/r/log") as reader:
        assert fold_events(reader, Last(), 2) == 2
        assert project(reader, Last(), 2) == "last 2"
        with pytest.raises(FoldFailed) as failed:
            fold_events(reader, Last())
    assert (failed.value.part, failed.value.sequence, failed.value.event) == ("apply", 5, "BudgetReserved")
    assert isinstance(failed.value.__cause__, ZeroDivisionError)


def test_spend_per_hour_adds_up_to_the_account(place: Path) -> None:
    """The example of the documentation: its hours come to what the audit says was settled."""
    fold = ROOT / "examples/spend_per_hour.py"
    hours = json.loads(evrun("project", "r", f"{fold}:SpendPerHour", cwd=place).out)
    account = evrun("audit", "r", "--json", cwd=place).json
    assert [hour["calls"] for hour in hours] == [account["calls"]["settled"]]
    assert [hour["usd"] for hour in hours] == [account["settled_usd"]]


def test_preference_pairs_prefer_what_was_kept(place: Path) -> None:
    """The other example, without a judge: a prompt with a kept and a discarded sample makes a pair."""
    fold = ROOT / "examples/preference_pairs.py"
    lines = evrun("project", "r", f"{fold}:PreferencePairs", cwd=place).out.splitlines()
    pairs = [json.loads(line) for line in lines]
    assert [pair["prompt"][-1]["content"] for pair in pairs] == ["plain", "four"]
    assert pairs[0]["chosen"] == [{"role": "assistant", "content": "answer 0"}]
    assert pairs[0]["rejected"] == [{"role": "assistant", "content": "another"}]


def test_preference_pairs_prefer_the_higher_score(tmp_path: Path) -> None:
    """With a judge its score decides, also between two that were kept."""
    commits = story()[:1] + judged(0, 1, 0.25) + judged(0, 2, 0.75) + judged(1, 1, 1.0)
    commits += judged(2, 1, 0.5) + judged(2, 2, 0.5)
    make_run(tmp_path / "data/r", commits)
    fold = ROOT / "examples/preference_pairs.py"
    (pair,) = evrun("project", "r", f"{fold}:PreferencePairs", "--json", cwd=tmp_path).json["shown"]
    assert [pair[side][0]["content"] for side in ("chosen", "rejected")] == ["0.2", "0.1"]
