"""Agents of training that call models: `chat`, functions with a context, and programs."""

import json
import shutil

import anyio
import msgspec
import pytest

from eventlog.events import (
    BudgetReserved,
    ModelAnswered,
    RolloutFinished,
    RolloutJudged,
    RolloutStarted,
    ToolFinished,
)
from evrun.batch.control import Ending
from tests.endpoint.client import running_endpoint
from tests.training.rolling import Stand, conclude, in_a_process, output_of, written

TASK = {"a": {"id": "a", "prompt": "What is it?", "answer": "Answer to What is it?"}}


@pytest.fixture
def endpoint():
    """An endpoint that keeps bodies."""
    with running_endpoint(keep_bodies=True) as running:
        yield running


def _adapter(directory, text):
    place = directory / "adapter"
    place.mkdir(exist_ok=True)
    (place / "ADAPTER.md").write_text(text)
    return place


def test_chat_asks_with_the_adapter_as_system_prompt(tmp_path, endpoint):
    """The task's question is the user's turn; the answer is the output, and paid for by the rollout."""
    stand = Stand(tmp_path, TASK, base_url=endpoint.base_url)
    stand.adapter = _adapter(tmp_path, "Answer shortly.")
    stand.run()
    (body,) = [kept["body"] for kept in endpoint.bodies()]
    assert body["messages"] == [
        {"role": "system", "content": "Answer shortly."},
        {"role": "user", "content": "What is it?"},
    ]
    (end,) = stand.events(RolloutFinished)
    assert output_of(end) == "Answer to What is it?"
    assert [message["role"] for message in json.loads(end.messages)] == ["system", "user", "assistant"]
    rollout = stand.rollout("a")
    assert rollout.score == 1.0
    assert rollout.settled_nano_usd > 0
    (reserved,) = stand.events(BudgetReserved)
    assert (reserved.unit, reserved.role) == ("step:1/task:a", "rollout")


def test_chat_without_an_adapter_asks_by_its_template(tmp_path, endpoint):
    """No system prompt; `agent.params.template` makes the question of the task's fields."""
    tasks = {"a": {"id": "a", "title": "T", "n": 3, "answer": "x"}}
    stand = Stand(tmp_path, tasks, base_url=endpoint.base_url, params={"template": "{title}: {n}?"})
    stand.run()
    (body,) = [kept["body"] for kept in endpoint.bodies()]
    assert body["messages"] == [{"role": "user", "content": "T: 3?"}]


def test_chat_runs_the_tools_that_its_model_calls(tmp_path):
    """Each call is recorded; its result goes back to the model."""
    call = {"tool_calls": [{"name": "terminal", "arguments": {"command": "echo hi"}}]}
    rules = [{"match": {"turn": 1}, "then": call}, {"then": {"text": "done"}}]
    with running_endpoint(rules=rules, keep_bodies=True) as endpoint:
        stand = Stand(tmp_path, TASK, base_url=endpoint.base_url, toolsets=["terminal"])
        stand.run()
        second = endpoint.bodies()[1]["body"]
    assert json.loads(second["messages"][-1]["content"])["output"] == "hi\n"
    assert len(stand.events(ToolFinished)) == 1
    assert output_of(stand.events(RolloutFinished)[0]) == "done"


def test_a_task_that_asks_nothing_is_an_error_that_says_so(tmp_path, endpoint):
    """Nothing is sent for it."""
    stand = Stand(tmp_path, {"a": {"id": "a", "x": 1}}, base_url=endpoint.base_url, retries=0)
    stand.run()
    (end,) = stand.events(RolloutFinished)
    assert end.status == "error"
    assert "give agent.params.template" in end.message
    assert endpoint.requests() == []


ASKING = (
    "import os, pathlib\n"
    "SEEN = pathlib.Path(__file__).with_name('seen')\n"
    "{a}def run(task, adapter, ctx):\n"
    "    said = []\n"
    "    for n in range(3):\n"
    "        answer = {w}ctx.complete([{{'role': 'user', 'content': f'{{n}}'}}])\n"
    "        said.append(answer.text)\n"
    "        if n == 1 and not SEEN.exists():\n"
    "            SEEN.touch()\n"
    "            os._exit(9)\n"
    "    return ' '.join(said)\n"
)


@pytest.mark.parametrize("words", [("async ", "await "), ("", "")], ids=["async", "plain"])
def test_answers_that_are_recorded_are_fed_and_never_paid_again(words, tmp_path, endpoint):
    """A process dies after the second of three answers: the next session asks for the third alone."""
    agent = f"{written(tmp_path, ASKING.format(a=words[0], w=words[1]))}run"
    given = {"agent": agent, "base_url": endpoint.base_url}
    assert in_a_process(tmp_path, TASK, ["a"], **given) == 9
    assert len(endpoint.requests()) == 2
    stand = Stand(tmp_path, TASK, **given)
    stand.run()
    assert [request["prompt"] for request in endpoint.requests()] == ["0", "1", "2"]
    assert [(one.attempt, one.carried) for one in stand.events(RolloutStarted)] == [(1, False), (1, True)]
    (end,) = stand.events(RolloutFinished)
    assert output_of(end) == "Answer to 0 Answer to 1 Answer to 2"
    assert stand.rollout("a").superseded_nano_usd == 0


def test_an_agent_that_asks_otherwise_than_before_begins_anew_and_says_so(tmp_path, endpoint):
    """Its old attempt is superseded, which is no failure of it; what that cost stays with it."""
    agent = f"{written(tmp_path, ASKING.format(a='async ', w='await '))}run"
    given = {"agent": agent, "base_url": endpoint.base_url, "retries": 0}
    assert in_a_process(tmp_path, TASK, ["a"], **given) == 9
    written(tmp_path, ASKING.format(a="async ", w="await ").replace("f'{n}'", "f'other {n}'"))
    stand = Stand(tmp_path, TASK, **given)
    stand.run()
    ends = stand.events(RolloutFinished)
    assert [(end.attempt, end.status, end.error_class) for end in ends] == [
        (1, "error", "superseded"),
        (2, "ok", None),
    ]
    rollout = stand.rollout("a")
    assert rollout.failures == 0
    assert rollout.superseded_nano_usd > 0


@pytest.mark.parametrize("kind", [{"status": 429}, {"fault": "close"}], ids=str)
def test_an_infrastructure_error_is_no_score(kind, tmp_path):
    """429 or an outage: tried again by the sender, then by another attempt, then the task is missing."""
    headers = {"headers": {"retry-after": "0"}} if "status" in kind else {}
    rules = [{"match": {"contains": "bad"}, "then": {**kind, **headers}}]
    tasks = {"a": TASK["a"], "b": {"id": "b", "prompt": "bad", "answer": "x"}}
    with running_endpoint(rules=rules) as endpoint:
        stand = Stand(tmp_path, tasks, base_url=endpoint.base_url, retries=1)
        stand.run("a")
        stand.run("b")
    assert (stand.rollout("a").score, stand.rollout("b").score) == (1.0, None)
    failed = [end for end in stand.events(RolloutFinished) if end.unit.endswith("b")]
    assert [(end.status, end.error_class) for end in failed] == [("error", "CallRefused")] * 2
    assert len(stand.events(RolloutJudged)) == 1


def test_an_outage_that_passes_leaves_a_score(tmp_path):
    """The first attempt fails, the second is judged."""
    rules = [{"match": {"contains": "is it"}, "then": {"status": 500}, "times": 2}]
    with running_endpoint(rules=rules) as endpoint:
        stand = Stand(tmp_path, TASK, base_url=endpoint.base_url, retries=1)
        stand.run()
    assert stand.rollout("a").score == 1.0


PROGRAM = (
    "import json, os, sys, urllib.request\n"
    "task = json.load(sys.stdin)\n"
    "assert task == json.loads(os.environ['EVRUN_TASK'])\n"
    "rules = open(os.environ['EVRUN_ADAPTER'] + '/ADAPTER.md').read()\n"
    "body = json.dumps({'model': os.environ['OPENAI_MODEL'],\n"
    "                   'messages': [{'role': 'user', 'content': rules + task['prompt']}]}).encode()\n"
    "token = 'Bearer ' + os.environ['OPENAI_API_KEY']\n"
    "headers = {'content-type': 'application/json', 'authorization': token}\n"
    "url = os.environ['OPENAI_BASE_URL'] + '/chat/completions'\n"
    "with urllib.request.urlopen(urllib.request.Request(url, body, headers)) as answer:\n"
    "    text = json.load(answer)['choices'][0]['message']['content']\n"
    "print('thinking', file=sys.stderr)\n"
)


def test_a_program_asks_through_the_recording_endpoint(tmp_path, endpoint):
    """Task and adapter come by stdin and variables; its standard output is the output, all of it is kept."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM + "print(text)\n")
    stand = Stand(tmp_path, TASK, base_url=endpoint.base_url, agent=f"command:python3 {program}")
    stand.adapter = _adapter(tmp_path, "Be short. ")
    stand.run()
    (end,) = stand.events(RolloutFinished)
    assert (end.status, output_of(end)) == ("ok", "Answer to Be short. What is it?"), end
    assert [file.path for file in end.files] == ["errors.txt", "output.txt"]
    assert json.loads(end.messages) == [
        {"role": "user", "content": "Be short. What is it?"},
        {"role": "assistant", "content": "Answer to Be short. What is it?"},
    ]
    assert len(stand.events(ModelAnswered)) == 1
    assert stand.rollout("a").settled_nano_usd > 0


ENDS = {
    "output.json": ('echo \'{"output": 7, "tokens": 3}\' > output.json', "ok", None, 7),
    "any JSON": ("echo '[1]' > output.json; echo no", "ok", None, [1]),
    "exit code": ("echo half; echo why >&2; exit 3", "error", "agent_failed", None),
    "bad output": ("echo '{' > output.json", "error", "bad_output", None),
    "too late": ("sleep 60", "timeout", "timeout", None),
}


@pytest.mark.parametrize(("command", "status", "error_class", "output"), ENDS.values(), ids=ENDS)
def test_how_a_program_ends_is_how_its_attempt_ends(command, status, error_class, output, tmp_path):
    """Without a model too; what a failing program said is told with its error."""
    stand = Stand(
        tmp_path, TASK, agent=f"command:{command}", retries=0, timeout_s=1 if "60" in command else None
    )
    stand.run()
    (end,) = stand.events(RolloutFinished)
    assert (end.status, end.error_class) == (status, error_class), end
    assert (None if end.output is None else output_of(end)) == output
    if error_class == "agent_failed":
        assert end.message == "the program ended with exit code 3; the end of what it said: why"
        assert [file.path for file in end.files] == ["errors.txt", "output.txt"]


def test_a_program_gets_the_variables_that_are_named_for_it_alone(tmp_path, monkeypatch):
    """`agent.params.env` passes them on; nothing else of the runner's environment is there."""
    monkeypatch.setenv("MY_OWN_KEY", "value one")
    monkeypatch.setenv("ANOTHER_KEY", "value two")
    stand = Stand(
        tmp_path, TASK, agent="command:echo $MY_OWN_KEY-$ANOTHER_KEY", params={"env": ["MY_OWN_KEY"]}
    )
    stand.run()
    assert output_of(stand.events(RolloutFinished)[0]) == "value one-"


def test_a_function_without_a_model_is_told_what_to_configure(tmp_path):
    """A call where no model is configured is an error that names the key."""
    text = "async def run(task, adapter, ctx): return await ctx.complete([])\n"
    stand = Stand(tmp_path, TASK, agent=f"{written(tmp_path, text)}run", retries=0)
    stand.run()
    (end,) = stand.events(RolloutFinished)
    assert end.error_class == "CallRefused"
    assert "no model is configured for the agent: give `model`" in end.message


LONG = (
    "{a}def run(task, adapter, ctx):\n"
    "    said = []\n"
    "    for n in range(3):\n"
    "        said.append(({w}ctx.complete([{{'role': 'user', 'content': f'{{n}}'}}])).text)\n"
    "    return ' '.join(said)\n"
)


@pytest.mark.parametrize("words", [("async ", "await "), ("", "")], ids=["async", "plain"])
def test_a_run_that_is_told_to_end_lets_the_call_under_way_finish_and_goes_on_later(words, tmp_path):
    """As on Ctrl-C: the answer is recorded, nothing new is asked, the attempt stays open; nothing is lost."""
    agent = f"{written(tmp_path, LONG.format(a=words[0], w=words[1]))}run"
    with running_endpoint(latency_ms=300) as endpoint:
        stand = Stand(tmp_path, TASK, base_url=endpoint.base_url, agent=agent)
        anyio.run(_told_to_end, stand)
        assert (len(stand.events(ModelAnswered)), stand.events(RolloutFinished)) == (1, [])
        later = Stand(tmp_path, TASK, base_url=endpoint.base_url, agent=agent)
        later.run()
        assert [request["prompt"] for request in endpoint.requests()] == ["0", "1", "2"]
    assert output_of(later.events(RolloutFinished)[0]) == "Answer to 0 Answer to 1 Answer to 2"
    assert [(one.attempt, one.carried) for one in later.events(RolloutStarted)] == [(1, False), (1, True)]


async def _told_to_end(stand):
    """A session that is told to end while its first call is under way."""
    async with stand.runner() as runner, anyio.create_task_group() as group:
        group.start_soon(runner.run, stand.job("a"), conclude)
        while not stand.state.ledger.reserved:  # noqa: ASYNC110 (the log's thread tells nobody)
            await anyio.sleep(0.01)
        stand.control.stop(Ending("interrupted", 130, "told to end"))


def test_tools_whose_directory_is_gone_are_no_ground_to_go_on_from(tmp_path):
    """What they had made is not there: the attempt is superseded, and a new one asks anew."""
    agent = (
        "import os, pathlib\nSEEN = pathlib.Path(__file__).with_name('seen')\n"
        "async def run(task, adapter, ctx):\n"
        "    await ctx.tool('terminal', command='echo made > made.txt')\n"
        "    if not SEEN.exists():\n        SEEN.touch()\n        os._exit(9)\n"
        "    return (ctx.directory / 'made.txt').read_text()\n"
    )
    with running_endpoint() as endpoint:
        given = {
            "agent": f"{written(tmp_path, agent)}run", "base_url": endpoint.base_url,
            "toolsets": ["terminal"],
        }  # fmt: skip
        assert in_a_process(tmp_path, TASK, ["a"], **given) == 9
        shutil.rmtree(tmp_path / "work")
        stand = Stand(tmp_path, TASK, **given)
        stand.run()
    ends = stand.events(RolloutFinished)
    assert [(end.attempt, end.error_class) for end in ends] == [(1, "superseded"), (2, None)]
    assert output_of(ends[1]) == "made\n"


@pytest.mark.parametrize(
    "words", [("async ", "await ", "await asyncio"), ("", "", "time")], ids=["async", "plain"]
)
def test_an_agent_past_its_time_asks_nothing_more(words, tmp_path):
    """It swallows its cancellation, or is a thread that cannot be stopped: it is refused whatever it asks."""
    text = (
        "import asyncio, pathlib, time\nSAID = pathlib.Path(__file__).with_name('said')\n"
        f"{words[0]}def run(task, adapter, ctx):\n"
        "    try:\n"
        f"        {words[2]}.sleep(1.5)\n"
        "    except asyncio.CancelledError:\n        pass\n"
        "    try:\n"
        f"        {words[1]}ctx.complete([])\n"
        "    except Exception as error:\n        SAID.write_text(str(error))\n"
    )
    with running_endpoint() as endpoint:
        stand = Stand(
            tmp_path, TASK, base_url=endpoint.base_url, agent=f"{written(tmp_path, text)}run", timeout_s=0.3,
            retries=0,
        )  # fmt: skip
        anyio.run(_until_said, stand, tmp_path / "said")
        assert endpoint.requests() == []
    assert [end.status for end in stand.events(RolloutFinished)] == ["timeout"]
    assert (tmp_path / "said").read_text() == "evrun: this attempt has ended"


async def _until_said(stand, said):
    """A session that goes on until the agent has tried."""
    async with stand.runner() as runner:
        await runner.run(stand.job("a"), conclude)
        with anyio.fail_after(30):
            while not said.exists():  # noqa: ASYNC110 (a thread writes it)
                await anyio.sleep(0.05)


def test_so_many_calls_and_no_more(tmp_path):
    """`agent.params.max_turns` ends an attempt that goes on and on."""
    call = {"tool_calls": [{"name": "terminal", "arguments": {"command": "echo hi"}}]}
    with running_endpoint(rules=[{"then": call}]) as endpoint:
        stand = Stand(tmp_path, TASK, base_url=endpoint.base_url, toolsets=["terminal"], retries=0)
        stand.settings = msgspec.structs.replace(stand.settings, max_turns=2)
        stand.run()
        assert len(endpoint.requests()) == 2
    (end,) = stand.events(RolloutFinished)
    assert (end.status, end.error_class) == ("error", "max_turns")
    assert end.message == "2 model calls were made, which are all (agent.params.max_turns)"


def test_a_task_whose_container_is_not_there_is_not_worked_on_outside(tmp_path):
    """Where tools are given: its commands would run on the host instead."""
    tasks = {"a": {"id": "a", "prompt": "p", "image": "127.0.0.1:9/nothing"}}
    with running_endpoint() as endpoint:
        stand = Stand(tmp_path, tasks, base_url=endpoint.base_url, toolsets=["terminal"], retries=0)
        stand.run()
        assert endpoint.requests() == []
    assert stand.events(RolloutFinished)[0].error_class in {"no_container", "image_pull"}
