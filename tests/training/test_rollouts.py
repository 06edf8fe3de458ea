"""Rollouts: what is recorded of them, how they are tried again, and how they end."""

import json

import anyio
import pytest

from eventlog.events import (
    BlobStored,
    EvaluationAttemptJudged,
    RolloutFinished,
    RolloutJudged,
    RolloutStarted,
)
from evrun.batch.control import Ending
from evrun.errors import UsageFault
from evrun.training.agents import load_agent
from projections import evaluation_unit
from tests.training.rolling import Stand, configuration, in_a_process, output_of, written

ECHO = "async def run(task, adapter): return task['q']\n"
TASKS = {"a": {"id": "a", "q": "x", "answer": "x"}, "b": {"id": "b", "q": "y", "answer": "z"}}


def test_an_agent_that_is_a_function_is_judged_and_both_are_one_commit(tmp_path):
    """Two tasks: one begins in one commit, and its end and the word of a built-in judge are one more."""
    stand = Stand(tmp_path, TASKS, agent=f"{written(tmp_path, ECHO)}run")
    stand.run()
    assert [stand.rollout(task).score for task in TASKS] == [1.0, 0.0]
    flat = [names for names in stand.commits() if "RolloutFinished" in names]
    assert all(names.count("RolloutFinished") == names.count("RolloutJudged") for names in flat)
    (judged,) = [event for event in stand.events(RolloutJudged) if event.score == 0.0]
    assert judged.feedback == "expected 'z', found 'y'"


FORMS = {
    "async": "async def run(task, adapter): return [task['id'], {}, None]",
    "plain": "def run(task, adapter): return [task['id'], {}, None]",
    "params by place": "def run(task, adapter, params): return [task['id'], params, None]",
    "ctx by place": "async def run(task, adapter, ctx): return [task['id'], ctx.params, ctx.unit]",
    "ctx of a thread": "def run(task, adapter, ctx): return [task['id'], ctx.params, ctx.unit]",
    "both by name": "async def run(task, adapter, *, params, ctx): return [task['id'], params, ctx.unit]",
    "what is not given": "def run(task, adapter, base=None): return [task['id'], {}, None]",
    "class": "class run:\n    def run(self, task, adapter): return [task['id'], {}, None]",
    "class with params": "class run:\n    def __init__(self, params): self.p = params\n"
    "    async def run(self, task, adapter): return [task['id'], self.p, None]",
    "own output": "from evrun import RunOutput\n"
    "def run(task, adapter): return RunOutput([task['id'], {}, None])",
}


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_every_form_of_a_function_gets_what_it_asks_for(text, tmp_path):
    """Task and adapter, and by name the parameters and the context; async, or plain in a thread."""
    stand = Stand(tmp_path, {"a": {"id": "a"}}, agent=f"{written(tmp_path, text)}run", params={"k": 1})
    stand.run()
    (finished,) = stand.events(RolloutFinished)
    assert finished.status == "ok", finished
    task, params, unit = output_of(finished)
    assert task == "a"
    assert params == ({"k": 1} if "param" in text else {})
    assert unit == ("step:1/task:a" if "ctx.unit" in text else None)


WRONG = {
    "no form": ("swe", "expected one of chat, FILE.py:NAME"),
    "no file": ("/nowhere/agent.py:run", "there is no file /nowhere/agent.py"),
    "no function": ("{file}other", "there is no function or agent 'other'"),
    "something else": ("{file}three", "it wants 'base', which evrun does not give"),
    "one argument": ("{file}one", "it does not take a task and an adapter"),
    "a class that fails": ("{file}Broken", "it cannot be made: ZeroDivisionError"),
    "no module": ("no.such.module:run", "No module named"),
}


@pytest.mark.parametrize(("name", "told"), WRONG.values(), ids=WRONG)
def test_an_agent_that_cannot_be_called_is_refused(name, told, tmp_path):
    """Before anything begins, with what is wrong."""
    text = (
        "def one(task): ...\ndef three(task, adapter, base): ...\n"
        "class Broken:\n    def __init__(self): 1 / 0\n"
    )
    file = written(tmp_path, text)
    with pytest.raises(UsageFault) as refused:
        load_agent(configuration(tmp_path, agent=name.format(file=file)))
    assert told in str(refused.value)
    assert str(refused.value).startswith("agent.name ")


def test_an_exception_is_an_error_with_its_traceback_and_is_tried_again(tmp_path):
    """So often as retries say; then the task has no score, and the judge was never asked."""
    text = "def run(task, adapter):\n    secret = 1 / 0\n"
    stand = Stand(tmp_path, {"a": TASKS["a"]}, agent=f"{written(tmp_path, text)}run", retries=2)
    stand.run()
    ends = stand.events(RolloutFinished)
    assert [(end.attempt, end.status, end.error_class) for end in ends] == [
        (number, "error", "ZeroDivisionError") for number in (1, 2, 3)
    ]
    assert ends[0].message == "division by zero"
    assert 'agent.py", line 2, in run' in ends[0].traceback
    assert "evrun/training" not in ends[0].traceback
    assert stand.events(RolloutJudged) == []
    assert (stand.rollout("a").score, stand.rollout("a").failures) == (None, 3)


def test_an_error_that_passes_leaves_the_score_of_what_came_after(tmp_path):
    """The first attempt fails, the second is judged."""
    text = (
        "import pathlib\nSEEN = pathlib.Path(__file__).with_name('seen')\n"
        "def run(task, adapter):\n"
        "    if not SEEN.exists():\n        SEEN.touch()\n        raise OSError('out for lunch')\n"
        "    return task['q']\n"
    )
    stand = Stand(tmp_path, {"a": TASKS["a"]}, agent=f"{written(tmp_path, text)}run")
    stand.run()
    rollout = stand.rollout("a")
    assert (rollout.attempt, rollout.score, rollout.failures) == (2, 1.0, 1)


@pytest.mark.parametrize("kind", ["async ", ""])
def test_an_agent_past_its_time_is_a_timeout(kind, tmp_path):
    """Async or plain: it is ended, or left to itself, and told as what it is."""
    sleep = "import asyncio, time\n" + (
        "async def run(task, adapter): await asyncio.sleep(60)\n"
        if kind
        else "def run(task, adapter): time.sleep(60)\n"
    )
    stand = Stand(
        tmp_path, {"a": TASKS["a"]}, agent=f"{written(tmp_path, sleep)}run", timeout_s=0.2, retries=0
    )
    stand.run()
    (end,) = stand.events(RolloutFinished)
    assert (end.status, end.error_class) == ("timeout", "timeout")
    assert end.message == "the agent was not done within 0.2 s (agent.timeout_min)"


def test_a_trajectory_is_in_the_log_with_its_end(tmp_path):
    """Files by digest, with their contents in the same commit; secrets are replaced in all of it."""
    text = (
        "from evrun import RunOutput\n"
        "def run(task, adapter, ctx):\n"
        "    (ctx.directory / 'log' / 'deep').mkdir(parents=True)\n"
        "    (ctx.directory / 'log' / 'deep' / 'a.txt').write_text('key sk-very-secret')\n"
        "    (ctx.directory / 'log' / 'run.sh').write_text('x')\n"
        "    (ctx.directory / 'log' / 'run.sh').chmod(0o755)\n"
        "    return RunOutput('said sk-very-secret', log='log',\n"
        "        messages=[{'role': 'user', 'content': 'hi'}], extra={'n': 1}, wall_s=1.5,\n"
        "        tokens={'input': 3, 'output': 4})\n"
    )
    stand = Stand(
        tmp_path, {"a": TASKS["a"]}, agent=f"{written(tmp_path, text)}run", secrets={"KEY": "sk-very-secret"}
    )
    stand.run()
    (end,) = stand.events(RolloutFinished)
    assert [(file.path, file.executable) for file in end.files] == [("deep/a.txt", False), ("run.sh", True)]
    assert {blob.data for blob in stand.events(BlobStored)} == {b"key [redacted:KEY]", b"x"}
    assert (output_of(end), end.tokens, end.wall_ms) == ("said [redacted:KEY]", 7, 1500)
    assert json.loads(end.messages) == [{"role": "user", "content": "hi"}]
    assert json.loads(end.extra) == {"n": 1}
    (names,) = [names for names in stand.commits() if "RolloutFinished" in names]
    assert names.count("BlobStored") == 2
    assert not any((tmp_path / "work").iterdir()), "what is in the log needs no directory"


ODD = {
    "no JSON": ("object()", "error", "no_json"),
    "lost log": ("__import__('evrun').RunOutput('x', log='gone')", "ok", None),
    "nan cost": ("__import__('evrun').RunOutput('x', cost_usd=float('nan'))", "ok", None),
    "half a character": ("'\\ud83d'", "ok", None),
    "exit": ("exit(3)", "error", "RuntimeError"),
}


@pytest.mark.parametrize(("given", "status", "error_class"), ODD.values(), ids=ODD)
def test_what_an_agent_should_not_give_ends_its_attempt_and_not_the_run(given, status, error_class, tmp_path):
    """It is recorded as what it is; where the output can be used, it is judged."""
    text = f"def run(task, adapter): return {given}\n"
    stand = Stand(tmp_path, {"a": TASKS["a"]}, agent=f"{written(tmp_path, text)}run", retries=0)
    stand.run()
    (end,) = stand.events(RolloutFinished)
    assert (end.status, end.error_class) == (status, error_class)
    assert bool(end.message) == (given != "'\\ud83d'")


def test_a_task_that_the_agent_changes_is_as_it_was_for_the_judge(tmp_path):
    """Agents get a copy: another attempt, and the judge, see the row of the file."""
    text = "def run(task, adapter):\n    task['answer'] = 'mine'\n    return 'mine'\n"
    stand = Stand(tmp_path, {"a": TASKS["a"]}, agent=f"{written(tmp_path, text)}run")
    stand.run()
    assert stand.rollout("a").score == 0.0


def test_a_session_after_a_kill_goes_on_with_what_is_open_alone(tmp_path):
    """What was judged is not run again; what was open is carried on under its number."""
    calls = tmp_path / "calls"
    text = (
        f"import os, pathlib\nCALLS = pathlib.Path({str(calls)!r})\n"
        "def run(task, adapter):\n"
        "    with CALLS.open('a') as file: file.write(task['id'])\n"
        "    if task['id'] == 'b' and CALLS.read_text().count('b') == 1: os._exit(9)\n"
        "    return task['q']\n"
    )
    agent = f"{written(tmp_path, text)}run"
    assert in_a_process(tmp_path, TASKS, ["a", "b"], agent=agent) == 9
    stand = Stand(tmp_path, TASKS, agent=agent)
    stand.run()
    assert calls.read_text() == "abb"
    assert [(event.unit[-1], event.attempt, event.carried) for event in stand.events(RolloutStarted)] == [
        ("a", 1, False), ("b", 1, False), ("b", 1, True),
    ]  # fmt: skip
    assert [stand.rollout(task).score for task in TASKS] == [1.0, 0.0]
    assert stand.state.training.unexplained == 0


def test_an_evaluation_is_told_of_an_attempt_that_failed_for_good(tmp_path):
    """Its last failure and the reason are one commit; what is judged is as anywhere."""
    text = "def run(task, adapter):\n    assert task['id'] == 'a', 'not b'\n    return 'x'\n"
    stand = Stand(tmp_path, TASKS, agent=f"{written(tmp_path, text)}run", retries=1)
    anyio.run(_evaluated, stand)
    attempts = stand.events(EvaluationAttemptJudged)
    assert [(one.task, one.attempt, one.score, one.error) for one in attempts] == [
        ("a", 1, 1.0, None),
        ("b", 2, None, "error: AssertionError: not b"),
    ]
    assert stand.commits()[-1][-2:] == ["RolloutFinished", "EvaluationAttemptJudged"]


async def _evaluated(stand):
    """Both tasks, as attempts of an evaluation, one after the other; a second time there is nothing to do."""
    async with stand.runner() as runner:
        for task in [*stand.tasks, *stand.tasks]:
            unit = evaluation_unit("none", 1, task, 1)
            job = stand.job(task, "evaluation")._replace(unit=unit)
            await runner.run(job, _told)


def _told(job, attempt, score, feedback, extra, error, _wall_ms):  # noqa: PLR0917 (a `Conclude`)
    """The end of an evaluation's attempt."""
    return EvaluationAttemptJudged(1, 1, job.task_id, job.unit, attempt, score, feedback, extra, error)


def test_an_evaluation_that_makes_fewer_tries_than_before_is_told_of_the_last_one(tmp_path):
    """It was cut short before its last try; there is none now, and it can come to its end."""
    text = "def run(task, adapter): raise ValueError('no')\n"
    agent = f"{written(tmp_path, text)}run"
    cut = Stand(tmp_path, {"a": TASKS["a"]}, agent=agent, retries=5)
    anyio.run(_cut_short, cut)
    assert cut.events(EvaluationAttemptJudged) == []
    stand = Stand(tmp_path, {"a": TASKS["a"]}, agent=agent, retries=0)
    anyio.run(_evaluated, stand)
    (told,) = stand.events(EvaluationAttemptJudged)
    assert (told.attempt, told.error) == (1, "error: ValueError: no")


async def _cut_short(stand):
    """An evaluation that is told to end after its first failure."""
    async with stand.runner() as runner, anyio.create_task_group() as group:
        job = stand.job("a", "evaluation")._replace(unit=evaluation_unit("none", 1, "a", 1))
        group.start_soon(runner.run, job, _told)
        while not stand.state.training.rollouts_error:  # noqa: ASYNC110 (the log's thread tells nobody)
            await anyio.sleep(0.01)
        stand.control.stop(Ending("interrupted", 130, "told to end"))
