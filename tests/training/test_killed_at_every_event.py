"""Killed at every event of a four-step run in turn, and resumed: as if nothing had happened, nothing repaid.

`EVRUN_TRAINING_KILLS=all` kills at every event; CI takes one event of each kind.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests import warm
from tests.runs import environment, evrun
from tests.training.toys import Toy

ALL = os.environ.get("EVRUN_TRAINING_KILLS") == "all"
UNTIMED = ("wall_s", "time", "seconds", "session")
IN_FLIGHT = 2


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The run that nothing has disturbed."""
    toy = Toy(tmp_path_factory.mktemp("whole"))
    done = evrun("train", "--config", toy.config, "--json", cwd=toy.directory)
    assert done.code == 0, done
    events = evrun("events", toy.run, "--json", cwd=toy.directory).stdout.splitlines()
    return toy, [json.loads(line)["type"] for line in events]


def chosen(kinds: list[str]) -> list[int]:
    """The sequences to die at: all but the end, or the second event of each kind (the only one of some)."""
    places: dict[str, list[int]] = {}
    unfinished = kinds[: kinds.index("RunFinished")]
    for sequence, kind in enumerate(unfinished, 1):
        places.setdefault(kind, []).append(sequence)
    if ALL:
        return list(range(1, len(unfinished) + 1))
    return sorted(found[min(1, len(found) - 1)] for found in places.values())


@pytest.mark.timeout(900)
def test_a_run_killed_at_any_event_ends_as_if_it_had_not_been(whole, tmp_path):
    """The same scores, statuses and files; only what was in flight is paid again; the setup once."""
    undisturbed, kinds = whole
    for sequence in chosen(kinds):
        toy = Toy(tmp_path / str(sequence))
        _die_at(toy, sequence)
        before = toy.paid()
        done = evrun("train", "--config", toy.config, "--json", cwd=toy.directory)
        assert done.code == 0, (sequence, done)
        assert _steps(toy) == _steps(undisturbed), sequence
        assert _outputs(toy) == _outputs(undisturbed), sequence
        again = toy.paid() - undisturbed.paid()
        assert sum(again.values()) <= IN_FLIGHT, (sequence, again)
        assert before["setup"] <= 1
        _check_account(toy, sequence)
        for command in (("replay", toy.run, "--check"), ("verify", toy.run)):
            assert evrun(*command, cwd=toy.directory).code == 0, (sequence, command)
        assert _ref(toy, "toy/final") == _final(toy), sequence


def _die_at(toy: Toy, sequence: int) -> None:
    process = warm.start(
        "tests.training.dying:main",
        [str(toy.config), str(sequence)],
        cwd=toy.directory,
        environment=environment(),
    )
    with process:
        process.communicate(60)
    assert process.returncode == -9, (sequence, process.returncode)


def _check_account(toy: Toy, sequence: int) -> None:
    """What was really paid lies between what is settled and what is settled or in doubt."""
    audit = evrun("audit", toy.run, "--json", cwd=toy.directory).json
    assert all(check["ok"] for check in audit["checks"]), (sequence, audit["checks"])


def _steps(toy: Toy) -> list[object]:
    return [_untimed(step) for step in toy.steps()]


def _untimed(value: object) -> object:
    """A value without what depends on when it was made: times, and hashes that times go into."""
    if isinstance(value, dict):
        left_out = {*UNTIMED, "commit", "commits", "parent", "budget_after"}
        return {key: _untimed(item) for key, item in value.items() if key not in left_out}
    return [_untimed(item) for item in value] if isinstance(value, list) else value


def _outputs(toy: Toy) -> dict[str, str]:
    """The files of steps and of the adapter, and the learner's state."""
    found = {}
    for step in sorted(toy.run.glob("step_*")):
        for file in sorted([*(step / "output").rglob("*"), *(step / "state").rglob("*")]):
            if file.is_file():
                found[str(file.relative_to(toy.run))] = file.read_text()
    found["ADAPTER.md"] = (toy.run / "checkout/ADAPTER.md").read_text()
    return found


def _ref(toy: Toy, name: str) -> str:
    return subprocess.run(
        ["git", "-C", str(toy.tree), "rev-parse", f"refs/tags/{name}"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip


def _final(toy: Toy) -> str:
    return str(json.loads(Path(toy.run / "summary.json").read_text())["final_commit"])
