"""A toy task whose every move can be foretold, and whose paid calls are counted in a file outside evrun.

The agent says the task's prompt again in lower case, in upper case once ADAPTER.md tells it to; each rollout
costs 0.10 USD and each call of the learner 0.05, by their own word.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

ROLLOUT_USD, LEARNER_USD = 0.10, 0.05
RULE = "Output format: uppercase."

AGENT = f"""
import os, time
from evrun import RunOutput

def run(task, adapter, params):
    file = os.open(params["account"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, ("rollout " + task["id"] + "\\n").encode())
    os.close(file)
    time.sleep(params.get("seconds", 0))
    if task["id"] in params.get("broken", ()):
        raise ConnectionError("the service of the task is not there")
    rules = "" if adapter is None else (adapter / "ADAPTER.md").read_text()
    text = task["prompt"].upper() if {RULE!r} in rules else task["prompt"].lower()
    return RunOutput(text, cost_usd={ROLLOUT_USD})
"""

JUDGE = f"""
from evrun import JudgeResult

def score(task, output):
    good = output == task["prompt"].upper()
    return JudgeResult(1.0 if good else 0.0, "right" if good else "The rule is: {RULE}")
"""

LEARNER = f"""
import json, os
from evrun import Evolver, StepResult, Usage

def paid(ctx, what):
    file = os.open(ctx.params["account"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, (what + "\\n").encode())
    os.close(file)

class Toy(Evolver):
    def setup(self, ctx):
        paid(ctx, "setup")
        (ctx.workspace.state / "calls").write_text("setup\\n")

    def bootstrap(self, ctx):
        paid(ctx, "bootstrap")
        return StepResult("done", "nothing to begin with")

    def step(self, ctx):
        paid(ctx, "learner %d" % ctx.progress.step)
        calls = ctx.workspace.state / "calls"
        calls.write_text(calls.read_text() + "step %d\\n" % ctx.progress.step)
        tasks = [json.loads(file.read_text())
                 for file in sorted((ctx.workspace.learning_material / "current/tasks").glob("*.json"))]
        (ctx.workspace.output / "report.md").write_text("step %d\\n" % ctx.progress.step)
        adapter = ctx.workspace.adapter / "ADAPTER.md"
        text = adapter.read_text()
        if {RULE!r} not in text and any(task["judge"]["score"] < 1 for task in tasks):
            adapter.write_text(text + "\\n" + {RULE!r} + "\\n")
        spent = Usage(model="own", cost_usd={LEARNER_USD})
        return StepResult("done", "step %d" % ctx.progress.step, usage=spent)

    def finalize(self, ctx):
        paid(ctx, "finalize")
        return "The output has to be in upper case."
"""


class Toy:
    """A directory with everything that a training run needs: four tasks, two a step, two epochs.

    `account` is the file in which paid calls are counted.
    """

    def __init__(self, directory: Path, name: str = "toy", **changes: Any) -> None:
        self.directory = directory
        self.account = directory / "account.txt"
        self.run = directory / "runs" / name
        self.tree = directory / "runs/trees/prompt-only"
        directory.mkdir(parents=True, exist_ok=True)
        tasks = [{"id": f"t{number}", "prompt": f"Task Number {number}"} for number in range(1, 7)]
        self._write("tasks.jsonl", "".join(json.dumps(task) + "\n" for task in tasks))
        self._write("train.txt", "t1\nt2\nt3\nt4\n")
        self._write("test.txt", "t5\nt6\n")
        self._write("agent.py", AGENT)
        self._write("judge.py", JUDGE)
        self._write("learner.py", LEARNER)
        params = {"account": str(self.account)}
        config: dict[str, Any] = {
            "data": {"tasks": "tasks.jsonl", "train": "train.txt", "test": "test.txt", "step_size": 2},
            "agent": {"name": "agent.py:run", "concurrency": 2, "params": params},
            "judge": {"path": "judge.py", "name": "score"},
            "template": "prompt-only",
            "evolver": {"name": "learner.py:Toy", "params": params},
            "trainer": {"run_name": name, "output_dir": "runs", "epochs": 2},
        }
        for key, value in changes.items():
            _put(config, key.split("__"), value)
        # JSON is YAML.
        self.config = self._write("run.yaml", json.dumps(config, indent=2))

    def paid(self) -> Counter[str]:
        """How often each thing was paid for, counted by those who did it."""
        lines = self.account.read_text().splitlines() if self.account.exists() else []
        return Counter(lines)

    def steps(self) -> list[dict[str, Any]]:
        """The lines of steps.jsonl."""
        return [json.loads(line) for line in (self.run / "steps.jsonl").read_text("utf-8").splitlines()]

    def _write(self, name: str, text: str) -> Path:
        path = self.directory / name
        path.write_text(text, "utf-8")
        return path


def _put(config: dict[str, Any], keys: list[str], value: Any) -> None:
    for key in keys[:-1]:
        config = config.setdefault(key, {})
    config[keys[-1]] = value
