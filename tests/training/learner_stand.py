"""A stand for learners: the context of a call on a real directory tree, with tools that count."""

import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evrun.training.authoring import Access, Progress, StepContext, StepResult, Workspace

MANIFEST = """\
template: {id: prompt-only, version: "1.0"}
structure: {learnable: [{path: ADAPTER.md, format: {text: true, max_bytes: 40000}}], fixed: []}
"""
Judged = Callable[[str, str], tuple[float | None, str]]
"""(adapter's text, task) -> score, null for an infrastructure error; and feedback."""


class Stand:
    """A run's side of a learner: `judged` says how an adapter does; `answers` are what the model says.

    `trials` holds the (adapter's text, task) of each rollout that run_agent made, `asked` the messages of
    each model call, `steps` what the steps returned.
    """

    def __init__(self, root: Path, judged: Judged, answer: Callable[[list[dict[str, str]]], str]) -> None:
        for path in ("workspace/adapter", "workspace/state", "workspace/output", "learning_material"):
            (root / path).mkdir(parents=True)
        (root / "workspace/adapter/adapter.yaml").write_text(MANIFEST)
        (root / "workspace/adapter/ADAPTER.md").write_text("Do the task.\n")
        self._begin(root, judged, answer)

    @classmethod
    def again(cls, root: Path, judged: Judged, answer: Callable[[list[dict[str, str]]], str]) -> "Stand":
        """The stand of a run that was begun before."""
        stand = cls.__new__(cls)
        stand._begin(root, judged, answer)
        return stand

    def _begin(self, root: Path, judged: Judged, answer: Callable[[list[dict[str, str]]], str]) -> None:
        self.root = root
        self.judged = judged
        self.answer = answer
        self.trials: list[tuple[str, str]] = []
        self.asked: list[list[dict[str, str]]] = []
        self.steps: list[StepResult] = []
        self.issues: list[dict[str, Any]] = []
        self.params: dict[str, Any] = {}
        self.val: list[str] = []
        self.adapter = root / "workspace/adapter"
        self.state = root / "workspace/state"

    @property
    def text(self) -> str:
        """What the adapter says now."""
        return (self.adapter / "ADAPTER.md").read_text()

    @property
    def report(self) -> str:
        """The newest step's report."""
        return (self.root / "workspace/output/report.md").read_text()

    def step(self, learner: Any, number: int, tasks: list[str]) -> StepResult:
        """Roll the tasks out with the adapter as it is, and call the learner, as a run does."""
        self._material(number, tasks)
        result: StepResult = learner.step(self.context(number))
        self.steps.append(result)
        return result

    def context(self, step: int = 0) -> Any:
        """What a call of the learner gets; scratch and output are empty."""
        work = self.root / "workspace"
        for name in ("scratch", "output"):
            shutil.rmtree(work / name, ignore_errors=True)
            (work / name).mkdir()
        workspace = Workspace(
            root=work,
            adapter=self.adapter,
            state=self.state,
            output=work / "output",
            scratch=work / "scratch",
            history=work / "history",
            learning_material=self.root / "learning_material",
        )
        return StepContext(
            workspace=workspace,
            access=Access(validation=self._validation(), task_info=None),
            progress=Progress(epoch=1, step=step, is_epoch_end=False),
            params=self.params,
            message="",
            session=None,
            tool_url=None,
            cancel=threading.Event(),
            tools={"run_agent": self._run_agent, "llm": self._llm, "check_spec": self._check_spec},
        )

    def _validation(self) -> Path | None:
        if not self.val:
            return None
        file = self.root / "validation.jsonl"
        file.write_text("".join(json.dumps({"id": task, "prompt": task}) + "\n" for task in self.val))
        return file

    def _material(self, number: int, tasks: list[str]) -> None:
        place = self.root / "learning_material" / f"step_{number:04d}"
        (place / "tasks").mkdir(parents=True)
        (place / "summary.json").write_text(json.dumps({"step": number, "tasks": tasks}))
        for task in tasks:
            row = self._row(self.text, task) | {"input": {"id": task, "prompt": f"the prompt of {task}"}}
            (place / "tasks" / f"{task}.json").write_text(json.dumps(row))
        current = self.root / "learning_material/current"
        current.unlink(missing_ok=True)
        current.symlink_to(place.name)

    def _row(self, text: str, task: str) -> dict[str, Any]:
        score, feedback = self.judged(text, task)
        if score is None:
            return {"id": task, "status": "error", "error": feedback, "output": None, "judge": None}
        judge = {"score": score, "feedback": feedback, "extra": None}
        return {"id": task, "status": "ok", "error": None, "output": f"output of {task}", "judge": judge}

    def _run_agent(self, task_ids: list[str], adapter: str | None = None) -> dict[str, Any]:
        text = (Path(adapter or self.adapter) / "ADAPTER.md").read_text()
        self.trials += [(text, task) for task in task_ids]
        rows = [self._row(text, task) for task in task_ids]
        return {
            "results": [{**row, **(row.pop("judge") or {"score": None, "feedback": None})} for row in rows]
        }

    def _llm(self, messages: list[dict[str, str]], **_: Any) -> dict[str, Any]:
        self.asked.append(messages)
        return {"content": self.answer(messages), "finish_reason": "stop"}

    def _check_spec(self, path: str | None = None) -> dict[str, Any]:
        assert path is None or (Path(path) / "adapter.yaml").is_file()
        issues = self.issues.pop(0) if self.issues else []
        return {"passed": not issues, "issues": issues}
