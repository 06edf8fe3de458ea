"""Judges: what the built-in ones say, functions of the user's own, and a model with a rubric."""

import json

import anyio
import pytest

from eventlog.events import BudgetReserved, ModelAnswered, RolloutFinished, RolloutJudged
from evrun.errors import UsageFault
from evrun.training.judges import load_judge
from tests.endpoint.client import running_endpoint
from tests.training.rolling import Stand, conclude, configuration, in_a_process, written

SAYS = {
    "exact": ("exact", {"answer": "Yes"}, " Yes\n", {}, 1.0),
    "exact, another": ("exact", {"answer": "Yes"}, "yes", {}, 0.0),
    "exact, without case": ("exact", {"answer": "Yes"}, "yes", {"ignore_case": True}, 1.0),
    "exact, one of several": ("exact", {"answer": ["no", "nope"]}, "nope", {}, 1.0),
    "exact, no text": ("exact", {"answer": 3}, 3, {}, 1.0),
    "exact, nothing": ("exact", {"answer": "x"}, None, {}, 0.0),
    "contains": ("contains", {"gold": "cat"}, "a cat sat", {"field": "gold"}, 1.0),
    "contains not": ("contains", {"answer": "dog"}, "a cat sat", {}, 0.0),
    "regex": ("regex", {"answer": r"c[ao]t\b"}, "a cot", {}, 1.0),
    "regex not": ("regex", {"answer": r"^cot"}, "a cot", {}, 0.0),
    "json": ("json-equal", {"answer": {"a": [1, 2.0]}}, '```json\n{"a": [1.0, 2]}\n```', {}, 1.0),
    "json, a list": ("json-equal", {"answer": "[1, 2]"}, [1, 2], {}, 1.0),
    "json, true is not 1": ("json-equal", {"answer": [1]}, "[true]", {}, 0.0),
    "json, none": ("json-equal", {"answer": [1]}, "one", {}, 0.0),
    "numeric": ("numeric", {"answer": "so much\n#### 1,042"}, "It is 7 + 1035 = $1042.", {}, 1.0),
    "numeric, marked": ("numeric", {"answer": 42}, "#### 42\nbut 17 is nice too", {}, 1.0),
    "numeric, another": ("numeric", {"answer": 42}, "42 or 43", {}, 0.0),
    "numeric, tolerance": ("numeric", {"answer": 3.14}, "3.2", {"tolerance": 0.1}, 1.0),
    "numeric, none": ("numeric", {"answer": -1.5e3}, "many", {}, 0.0),
}


def judged(name, task, output, params):
    """What a judge says, where it is loaded by its configuration."""

    async def main():
        async with load_judge(configuration(None, judge=name, judge_params=params)) as judge:
            return await judge.judge(task, output)

    return anyio.run(main)


@pytest.mark.parametrize(("name", "task", "output", "params", "score"), SAYS.values(), ids=SAYS)
def test_built_in_judges(name, task, output, params, score):
    """Right is 1, wrong is 0 with a word about what was expected."""
    verdict = judged(name, task, output, params)
    assert (verdict.score, verdict.error) == (score, None)
    assert bool(verdict.feedback) == (score == 0.0)


CANNOT = {
    "no field": ("exact", {"id": "a"}, {}, "the task has no field 'answer' (judge.params.field); it has id"),
    "no number": ("numeric", {"answer": "many"}, {}, "there is no number in 'many'"),
    "no pattern": ("regex", {"answer": "("}, {}, "is no pattern"),
    "no tolerance": ("numeric", {"answer": 1}, {"tolerance": "much"}, "tolerance: 'much' is no number"),
}


@pytest.mark.parametrize(("name", "task", "params", "told"), CANNOT.values(), ids=CANNOT)
def test_a_task_that_does_not_say_what_is_right_is_an_error_and_no_zero(name, task, params, told):
    """There is no score then."""
    verdict = judged(name, task, "1", params)
    assert verdict.score is None
    assert told in verdict.error


def test_a_pattern_that_never_ends_holds_up_nobody(tmp_path):
    """It is an error of the judge at its deadline; the process that it ran in is gone."""
    stand = Stand(
        tmp_path, {"a": {"id": "a", "answer": "(a+)+$"}}, judge="regex", judge_timeout_s=1.5,
        agent=f"{written(tmp_path, AGENT)}run",
    )  # fmt: skip
    stand.run()
    (event,) = stand.events(RolloutJudged)
    assert event.score is None
    assert "no score within" in event.error


AGENT = "def run(task, adapter): return task.get('say', 'a' * 64 + '!')\n"
JUDGE = (
    "import os\nfrom evrun import JudgeResult\n"
    "def score(task, output, params):\n    print('noise')\n    return eval(task['gives'])\n"
)
GIVES = {
    "number": ("0.5", 0.5, None, None),
    "dict": ("{'score': 1, 'feedback': 'f', 'extra': [1]}", 1.0, "f", [1]),
    "result": ("JudgeResult(0.25, 'f', {'k': task['id'] + output})", 0.25, "f", {"k": "resulthello"}),
    "pair": ("(2, 'f')", 2.0, "f", None),
    "params": ("params['n']", 3.0, None, None),
    "true": ("True", 1.0, None, None),
}
FAILS = {
    "exception": ("1 / 0", "ZeroDivisionError"),
    "nan": ("float('nan')", "expected a number"),
    "infinite": ("{'score': float('inf')}", "expected a number"),
    "text": ("'good'", "the judge gave 'good'; expected a finite number"),
    "nothing": ("None", "expected a number"),
    "odd extra": ("{'score': 1, 'extra': object()}", "something extra that is no JSON"),
    "a secret": ("int('sk-very-secret')", "[redacted:KEY]"),
    "death": ("os._exit(1)", "its process died"),
}


@pytest.fixture(scope="module")
def spoken(tmp_path_factory):
    """A run in which a function of the user's judges everything that is given above."""
    directory = tmp_path_factory.mktemp("judges")
    gives = {name: given for name, (given, *_) in {**GIVES, **FAILS}.items()}
    stand = Stand(
        directory, {name: {"id": name, "say": "hello", "gives": given} for name, given in gives.items()},
        judge=f"{written(directory, JUDGE, 'judge.py')}score", judge_params={"n": 3},
        agent=f"{written(directory, AGENT)}run", secrets={"KEY": "sk-very-secret"},
    )  # fmt: skip
    anyio.run(_one_after_the_other, stand)
    return stand


async def _one_after_the_other(stand):
    async with stand.runner() as runner:
        for task in stand.tasks:
            await runner.run(stand.job(task), conclude)


@pytest.mark.parametrize("name", GIVES)
def test_a_function_judges_in_a_process(name, spoken):
    """It may give a number, a mapping or a `JudgeResult`, and ask for the judge's parameters."""
    _, score, feedback, extra = GIVES[name]
    (event,) = [event for event in spoken.events(RolloutJudged) if event.unit == f"step:1/task:{name}"]
    assert (event.score, event.feedback, event.error) == (score, feedback, None)
    assert (None if event.extra is None else json.loads(event.extra)) == extra


@pytest.mark.parametrize("name", FAILS)
def test_a_judge_that_fails_gives_no_score_and_says_why(name, spoken):
    """The attempt is not run again for it, and its output stays."""
    (event,) = [event for event in spoken.events(RolloutJudged) if event.unit == f"step:1/task:{name}"]
    assert event.score is None
    assert FAILS[name][1] in event.error
    assert spoken.rollout(name).judge_error == event.error
    assert len([end for end in spoken.events(RolloutFinished) if end.unit == event.unit]) == 1


WRONG = {
    "no file": ("/nowhere/judge.py:score", {}, "judge.path: there is no file /nowhere/judge.py"),
    "no function": ("{file}other", {}, "judge.path: "),
    "no judge": ("exakt", {}, "there is no built-in judge 'exakt'; did you mean exact?"),
    "no rubric": ("llm", {}, "judge.name llm: there is no rubric"),
    "no rubric file": ("llm", {"rubric_file": "/nowhere/r.txt"}, "judge.params.rubric_file: /nowhere/r.txt"),
}


@pytest.mark.parametrize(("judge", "params", "told"), WRONG.values(), ids=WRONG)
def test_a_judge_that_is_not_there_is_refused(judge, params, told, tmp_path):
    """Before anything begins."""
    file = written(tmp_path, "def score(t, o): return 1\n", "judge.py")
    with pytest.raises(UsageFault) as refused:
        load_judge(configuration(tmp_path, judge=judge.format(file=file), judge_params=params))
    assert told in str(refused.value)


def test_an_output_that_was_not_judged_is_judged_in_the_next_session(tmp_path):
    """A process dies in the judge: the agent is not run again, and the judge sees the recorded output."""
    calls = tmp_path / "calls"
    agent = f"def run(task, adapter):\n    open({str(calls)!r}, 'a').write('x')\n    return 'said'\n"
    judge = (
        "import os, pathlib, signal, time\nSEEN = pathlib.Path(__file__).with_name('seen')\n"
        "def score(task, output):\n"
        "    if not SEEN.exists():\n        SEEN.touch()\n"
        "        os.kill(os.getppid(), signal.SIGKILL)\n        time.sleep(60)\n"
        "    return float(output == 'said')\n"
    )
    given = {
        "agent": f"{written(tmp_path, agent)}run",
        "judge": f"{written(tmp_path, judge, 'judge.py')}score",
    }
    assert in_a_process(tmp_path, {"a": {"id": "a"}}, ["a"], **given) == -9
    stand = Stand(tmp_path, {"a": {"id": "a"}}, **given)
    stand.run()
    assert stand.rollout("a").score == 1.0
    assert calls.read_text() == "x"


RUBRIC = {"rubric": "Is it good? From 0 to 10."}


def test_a_model_judges_by_a_rubric_and_is_paid_by_the_rollout(tmp_path):
    """It is shown rubric, task and output; an answer without a score is asked about once more."""
    rules = [
        {"match": {"turn": 1, "contains": "Is it good?"}, "then": {"text": "Well, yes."}, "times": 1},
        {"then": {"text": '{"score": 7, "feedback": "fine"}'}},
    ]
    with running_endpoint(rules=rules, keep_bodies=True) as endpoint:
        stand = Stand(
            tmp_path, {"a": {"id": "a", "say": "hello"}}, base_url=endpoint.base_url, judge="llm",
            judge_params=RUBRIC, agent=f"{written(tmp_path, AGENT)}run",
        )  # fmt: skip
        stand.run()
        first, second = (kept["body"]["messages"] for kept in endpoint.bodies())
    assert 'Task:\n{"id": "a", "say": "hello"}\n\nOutput:\nhello' in first[1]["content"]
    assert second[2]["content"] == "Well, yes."
    rollout = stand.rollout("a")
    assert rollout.score == 7.0
    assert rollout.settled_nano_usd > 0
    assert {(one.unit, one.role) for one in stand.events(BudgetReserved)} == {
        ("step:1/task:a/judge", "judge")
    }
    assert stand.events(RolloutJudged)[0].feedback == "fine"


def test_a_model_s_judgement_is_paid_once_though_its_process_dies(tmp_path):
    """The answer that is recorded is used in the next session; only what it had not answered is asked."""
    rules = [
        {"then": {"text": "hm"}, "times": 1},
        {"then": {"fault": "hang"}, "times": 1},
        {"then": {"text": "score: 4"}},
    ]
    tasks = {"a": {"id": "a", "say": "hello"}}
    with running_endpoint(rules=rules) as endpoint:
        given = {
            "base_url": endpoint.base_url, "judge": "llm", "judge_params": RUBRIC,
            "agent": f"{written(tmp_path, AGENT)}run",
        }  # fmt: skip
        _stopped_at_second_call(tmp_path, tasks, given)
        stand = Stand(tmp_path, tasks, **given)
        stand.run()
        assert len(endpoint.requests()) == 3
    assert stand.rollout("a").score == 4.0
    assert len(stand.events(ModelAnswered)) == 2


def _stopped_at_second_call(directory, tasks, given):
    """A session that is given up while its judge's second call is under way."""

    async def main():
        stand = Stand(directory, tasks, **given)
        with anyio.move_on_after(30) as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(stand.run_all)
                while stand.state is None or stand.state.ledger.granted < 2:  # noqa: ASYNC110 (another acts)
                    await anyio.sleep(0.05)
                scope.cancel()

    anyio.run(main)


def test_a_judge_whose_model_is_not_there_gives_no_score(tmp_path):
    """Tried again as any call; then the reason stands in the record."""
    with running_endpoint(
        rules=[{"then": {"status": 400, "error": {"message": "no such thing"}}}]
    ) as endpoint:
        stand = Stand(
            tmp_path, {"a": {"id": "a", "say": "x"}}, base_url=endpoint.base_url, judge="llm",
            judge_params=RUBRIC, agent=f"{written(tmp_path, AGENT)}run",
        )  # fmt: skip
        stand.run()
    (event,) = stand.events(RolloutJudged)
    assert event.score is None
    assert event.error.startswith("the judge's model: ")
    assert "no such thing" in event.error


def test_another_rubric_is_asked_about_anew(tmp_path):
    """What is recorded of the judge that was in force before does not count, and holds up nobody."""
    rules = [
        {"then": {"text": "hm"}, "times": 1},
        {"then": {"fault": "hang"}, "times": 1},
        {"then": {"text": "score: 4"}},
    ]
    tasks = {"a": {"id": "a", "say": "hello"}}
    with running_endpoint(rules=rules) as endpoint:
        given = {
            "base_url": endpoint.base_url, "judge": "llm", "agent": f"{written(tmp_path, AGENT)}run",
        }  # fmt: skip
        _stopped_at_second_call(tmp_path, tasks, {**given, "judge_params": RUBRIC})
        stand = Stand(tmp_path, tasks, **given, judge_params={"rubric": "Is it short?"})

        async def main():
            with anyio.fail_after(30):
                await stand.run_all()

        anyio.run(main)
        assert len(endpoint.requests()) == 3
    assert stand.rollout("a").score == 4.0


def test_files_of_the_current_directory_hide_nothing_from_a_judge(tmp_path, monkeypatch):
    """A file inspect.py there is not the library's to the process in which a function judges."""
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "inspect.py").write_text("raise SystemExit('the wrong one')\n")
    monkeypatch.chdir(tmp_path / "here")
    file = written(tmp_path, "def score(task, output): return 0.5\n", "judge.py")

    async def main():
        async with load_judge(configuration(tmp_path, judge=f"{file}score")) as judge:
            return await judge.judge({}, "x")

    assert anyio.run(main).score == 0.5
