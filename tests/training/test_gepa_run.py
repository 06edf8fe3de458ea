"""`evolver: gepa` by the real command: killed in the middle of a search, it ends as if it had not been."""

import json
import os
import signal

import pytest

from tests.cli.shell import start
from tests.training.gepa_world import answer
from tests.training.oracle import running_oracle

STEPS = 6
AGENT = """
import hashlib

def run(task, adapter):
    text = "" if adapter is None else (adapter / "ADAPTER.md").read_text()
    drawn = int(hashlib.sha256((text + task["id"]).encode()).hexdigest()[:8], 16) % 5
    return f"output of {task['id']} is {drawn}"
"""
JUDGE = """
def score(task, output):
    return {"score": int(output.split()[-1]) / 4, "feedback": "feedback for " + task["id"]}
"""


class World:
    """A run of six steps in a directory."""

    def __init__(self, place, oracle):
        self.place, self.oracle = place, oracle
        place.mkdir()
        names = [f"t{number}" for number in range(6)] + [f"v{number}" for number in range(4)]
        (place / "tasks.jsonl").write_text("".join(json.dumps({"id": name}) + "\n" for name in names))
        (place / "train.txt").write_text("\n".join(names[:6]))
        (place / "val.txt").write_text("\n".join(names[6:]))
        (place / "agent.py").write_text(AGENT)
        (place / "judge.py").write_text(JUDGE)
        data = {"tasks": "tasks.jsonl", "train": "train.txt", "val": "val.txt", "step_size": 3}
        config = {
            **oracle.config(),
            "data": data,
            "agent": {"name": "agent.py:run"},
            "judge": {"path": "judge.py"},
            "template": "prompt-only",
            "evolver": {"name": "gepa"},
            "trainer": {"run_name": "r", "output_dir": "runs", "epochs": STEPS // 2},
        }
        (place / "run.yaml").write_text(json.dumps(config))
        self.run = place / "runs/r"

    def train(self):
        """`evrun train`, from beginning to end; its exit code."""
        self.process = start("train", "--config", "run.yaml", "--quiet", "--json", cwd=self.place)
        out, err = self.process.communicate(timeout=110)
        self.said = out + err
        return self.process.returncode

    def search(self):
        """All files of the learner's state after the last step, and the adapter."""
        state = self.run / f"step_{STEPS:04d}/state"
        found = {
            str(path.relative_to(state)): path.read_text() for path in state.rglob("*") if path.is_file()
        }
        return found | {"ADAPTER.md": (self.run / "checkout/ADAPTER.md").read_text()}

    def lines(self):
        """What steps.jsonl says that does not depend on time."""
        rows = [json.loads(line) for line in (self.run / "steps.jsonl").read_text().splitlines()]
        return [(row["rollout"]["scores"], row["evolver"]["summary"], row["changed"]) for row in rows]


@pytest.mark.timeout(240)
def test_a_search_killed_in_its_fifth_step_ends_as_if_it_had_not_been(tmp_path):
    """Killed while the model is asked, after four steps of six; the state is the same to the byte."""
    with running_oracle(answer) as oracle:
        whole = World(tmp_path / "whole", oracle)
        assert whole.train() == 0, whole.said
        asked = len(oracle.asked)
        killed = World(tmp_path / "killed", oracle)
        fifth = asked + 5

        def kill(number):
            if number == fifth:
                os.kill(killed.process.pid, signal.SIGKILL)

        oracle.before = kill
        assert killed.train() == -signal.SIGKILL
        assert len(killed.lines()) == 4
        assert killed.train() == 0, killed.said
        assert killed.lines() == whole.lines()
        assert killed.search() == whole.search()
        assert len(oracle.asked) == 2 * asked + 1
