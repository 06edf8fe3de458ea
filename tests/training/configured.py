"""A directory with a run.yaml and all that it names."""

from pathlib import Path

from evrun.training.config import TrainingConfig
from evrun.training.config_file import load_config

PLAIN = """\
data: {tasks: tasks.jsonl, train: train.txt}
agent: agent.py:run
judge: judge.py
template: prompt-only
evolver: learner.py:Learner
trainer: {run_name: r}
"""


def written(directory: Path, text: str = PLAIN, *, tasks: int = 4) -> Path:
    """The files of a small training run; the path of its run.yaml."""
    names = [f"t{number}" for number in range(tasks)]
    files = {
        "tasks.jsonl": "".join(f'{{"id": "{name}", "prompt": "p {name}"}}\n' for name in names),
        "train.txt": "\n".join(names),
        "agent.py": "def run(task, adapter):\n    return task['prompt']\n",
        "judge.py": "def score(task, output):\n    return 1.0\n",
        "learner.py": "class Learner:\n    def step(self, ctx):\n        return None\n",
        "run.yaml": text,
    }
    for name, content in files.items():
        if name == "run.yaml" or not (directory / name).exists():
            (directory / name).write_text(content)
    return directory / "run.yaml"


def config_in(directory: Path, *overrides: str, text: str = PLAIN, tasks: int = 4) -> TrainingConfig:
    """The configuration of such a directory."""
    return load_config(written(directory, text, tasks=tasks), list(overrides))
