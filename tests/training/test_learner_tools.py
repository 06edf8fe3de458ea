"""A learner's tools and its model: recorded, and in a later session given back from the record."""

import json

import pytest

from eventlog.events import Issue, ModelAnswered, ToolFinished, ToolStarted
from evrun.batch.control import Ending
from evrun.training.authoring import ToolError
from evrun.training.learner_tools import Diverged, RunEnding
from tests.endpoint.client import running_endpoint
from tests.evrun.acting import events_in
from tests.training import learners
from tests.training.learner_log import session
from tests.training.learners import SECRET, run


def of(directory, kind):
    """The events of one kind in the log."""
    return [event for event in events_in(directory) if isinstance(event, kind)]


def test_each_tool_says_what_it_promises(tmp_path):
    """check_spec, budget and run_agent; llm only where there is a model."""

    async def main():
        async with session(tmp_path) as asking:
            tools = asking.tools()
            assert [one["name"] for one in tools.describe()] == ["check_spec", "budget", "run_agent"]
            assert await tools.invoke("check_spec", {}) == {"passed": True, "issues": []}
            asking.issues = [Issue("x", 2, "is neither learnable nor fixed")]
            (asking.workspace.adapter / "x").touch()
            found = await tools.invoke("check_spec", {"path": None})
            assert found["issues"] == [{"path": "x", "check": 2, "problem": "is neither learnable nor fixed"}]
            assert (await tools.invoke("budget", {}))["settled_usd"] == "0.5"
            (result,) = (await tools.invoke("run_agent", {"task_ids": ["a"]}))["results"]
            assert (result["id"], result["judge"]["score"]) == ("a", 0.5)

    run(main)


def test_what_is_recorded_is_given_back_and_not_done_again(tmp_path):
    """In a later session, with its other directories; errors too. What comes after it is done."""

    async def begin():
        async with session(tmp_path) as asking:
            tools = asking.tools()
            (asking.workspace.scratch / "b").mkdir()
            (asking.workspace.scratch / "b" / "ADAPTER.md").write_text("b")
            first = [
                await tools.invoke("check_spec", {}),
                await tools.invoke("check_spec", {"path": str(asking.workspace.scratch / "b")}),
                await tools.invoke("run_agent", {"task_ids": ["a", "b"], "adapter": "scratch/b"}),
            ]
            asking.fails = ValueError("out of order")
            with pytest.raises(ToolError, match="out of order"):
                await tools.invoke("run_agent", {"task_ids": ["a"]})
            return first

    async def again(first):
        async with session(tmp_path) as asking:
            tools = asking.tools()
            (asking.workspace.scratch / "b").mkdir()
            (asking.workspace.scratch / "b" / "ADAPTER.md").write_text("b")
            assert await tools.invoke("check_spec", {}) == first[0]
            assert await tools.invoke("check_spec", {"path": "scratch/b"}) == first[1]
            arguments = {"task_ids": ["a", "b"], "adapter": str(asking.workspace.scratch / "b")}
            assert await tools.invoke("run_agent", arguments) == first[2]
            with pytest.raises(ToolError, match="out of order"):
                await tools.invoke("run_agent", {"task_ids": ["a"]})
            assert asking.done == []
            await tools.invoke("run_agent", {"task_ids": ["b"]})
            assert asking.done == [("run", ["b"], 4)]

    run(again, run(begin))
    assert SECRET not in str(events_in(tmp_path)), "what tools say is recorded without secrets"


def test_another_candidate_is_another_call(tmp_path):
    """A call is known by the files of what it looks at: changed since, it is not the one that is recorded."""

    async def main():
        async with session(tmp_path) as asking:
            await asking.tools().invoke("check_spec", {})
        async with session(tmp_path) as asking:
            (asking.workspace.adapter / "ADAPTER.md").write_text("another")
            with pytest.raises(Diverged, match="check_spec, with 1 recorded"):
                await asking.tools().invoke("check_spec", {})

    run(main)


def test_a_call_that_was_cut_short_is_done_again_under_its_number(tmp_path):
    """The run was ending while rollouts were at work: nothing says that they ended, and they go on."""

    async def main():
        async with session(tmp_path) as asking:
            asking.fails = RunEnding()
            with pytest.raises(RunEnding):
                await asking.tools().invoke("run_agent", {"task_ids": ["a"]})
        async with session(tmp_path) as asking:
            await asking.tools().invoke("run_agent", {"task_ids": ["a"]})
            assert asking.done == [("run", ["a"], 0)]

    run(main)
    assert [event.position for event in of(tmp_path, ToolStarted)] == [0, 0]
    assert [event.position for event in of(tmp_path, ToolFinished)] == [0]


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("run_agent", {"task_ids": ["a", "held-out"]}, "held-out: only tasks of data.train and data.val"),
        ("run_agent", {"task_ids": "a"}, "task_ids is 'a'; expected a list of strings"),
        ("run_agent", {"task_ids": [1]}, "task_ids is [1]; expected a list of strings"),
        ("run_agent", {}, "the argument task_ids is missing"),
        ("check_spec", {"path": "../.."}, "is not in the workspace"),
        ("check_spec", {"path": "/etc"}, "is not in the workspace"),
        ("check_spec", {"path": "scratch/none"}, "is no directory"),
        ("check_spec", {"adapter": "x"}, "there is no argument adapter; there is path"),
        ("budget", {"of": "x"}, "there is no argument of; there is none"),
        ("llm", {"messages": [{"role": "user", "content": "q"}]}, "no model is configured"),
        ("shell", {}, "there is no tool shell; there is check_spec"),
    ],
)
def test_what_a_tool_cannot_do_is_told_and_not_recorded(tmp_path, name, arguments, said):
    """Held-out tasks above all: a learner never sees them."""

    async def main():
        async with session(tmp_path) as asking:
            with pytest.raises(ToolError) as refused:
                await asking.tools().invoke(name, arguments)
            assert said in str(refused.value)
            assert asking.done == []

    run(main)
    assert of(tmp_path, ToolStarted) == []


QUESTION = {"messages": [{"role": "user", "content": "how?"}]}


def test_a_model_s_answer_is_paid_once_and_given_back(tmp_path):
    """The tool llm: recorded as a model call of the learner, with its cost; a later session pays nothing."""

    async def once(endpoint):
        async with session(tmp_path, endpoint.base_url) as asking:
            said = await asking.tools().invoke("llm", QUESTION | {"max_tokens": 50})
            assert (said["content"], said["finish_reason"]) == ("Answer to how?", "stop")
            assert said["usage"]["calls"] == 1
            return said, asking.settled

    with running_endpoint() as endpoint:
        first, second = run(once, endpoint), run(once, endpoint)
        assert first == second
        assert first[1] > 0
        assert endpoint.totals()["requests"] == 1
    assert len(of(tmp_path, ModelAnswered)) == 1


def test_a_model_that_is_not_asked_because_the_run_is_ending_leaves_the_call_open(tmp_path):
    """The learner is told that the run is ending, which is no answer to be recorded."""

    async def main(endpoint):
        async with session(tmp_path, endpoint.base_url) as asking:
            asking.control.stop(Ending("interrupted", 130, "ended by SIGINT"))
            with pytest.raises(RunEnding):
                await asking.tools().invoke("llm", QUESTION)

    with running_endpoint() as endpoint:
        run(main, endpoint)


OWN_CLIENT = """
def __init__(self):
    self.address = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    key = os.environ["OPENAI_API_KEY"]
    self.headers = {"content-type": "application/json", "authorization": "Bearer " + key}
def ask(self, text):
    import json, urllib.request
    body = {"model": os.environ["OPENAI_MODEL"], "messages": [{"role": "user", "content": text}]}
    request = urllib.request.Request(self.address, json.dumps(body).encode(), self.headers)
    return json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]
def step(self, ctx):
    said = self.ask("own")
    asked = ctx.tools["llm"](messages=[{"role": "user", "content": "tool"}])["content"]
    if "fail" in ctx.params:
        raise ValueError("after it was paid")
    return StepResult("done", f"{said} {asked}")
"""


def test_a_learner_s_own_client_goes_through_evrun(tmp_path):
    """Made once, before any call; recorded, and fed to the learner when it runs again after it failed."""

    async def main(endpoint):
        async with learners.python(tmp_path, OWN_CLIENT) as made:
            async with session(tmp_path, endpoint.base_url) as asking:
                failed = await made.call(ask=asking.ask, tools=asking.tools(), fail=1)
                assert "after it was paid" in failed.error
            async with session(tmp_path, endpoint.base_url) as asking:
                done = await made.call(ask=asking.ask, tools=asking.tools())
                assert (done.summary, done.diverged) == ("Answer to own Answer to tool", False)
            late = await made.call()
            assert "HTTP Error 401" in late.error, "its token is good while a call with a model is going on"

    with running_endpoint() as endpoint:
        run(main, endpoint)
        assert endpoint.totals()["billed"] == 2


def test_a_learner_that_asks_something_else_than_before_is_begun_anew(tmp_path):
    """Nothing is mixed: its call ends as diverged, with what it asked before."""
    body = """
def step(self, ctx):
    asked = ctx.tools["llm"](messages=[{"role": "user", "content": ctx.params["question"]}])
    return StepResult("done", asked["content"])
"""

    async def once(endpoint, question):
        async with session(tmp_path, endpoint.base_url) as asking, learners.python(tmp_path, body) as made:
            return await made.call(ask=asking.ask, tools=asking.tools(), question=question)

    with running_endpoint() as endpoint:
        assert run(once, endpoint, "one").summary == "Answer to one"
        other = run(once, endpoint, "another")
        assert (other.diverged, other.in_order) == (True, False)
        assert "chat/completions, with 1 recorded" in other.error
        assert endpoint.totals()["requests"] == 1


def test_the_tools_are_the_same_over_http(tmp_path):
    """GET tools, POST call/NAME: an object with a result, or with an error; another address has nothing."""
    body = """
def step(self, ctx):
    import json, urllib.error, urllib.request
    def ask(path, data=None):
        try:
            return json.load(urllib.request.urlopen(ctx.tool_url.removesuffix(path) + path, data))
        except urllib.error.HTTPError as error:
            return [error.code, json.load(error)["error"]]
    stranger = ctx.tool_url.rpartition("/")[0] + "/0000/tools"
    try:
        urllib.request.urlopen(stranger)
    except urllib.error.HTTPError as error:
        other = error.code
    said = [
        [one["name"] for one in ask("/tools")],
        ask("/call/check_spec", b"{}"), ask("/call/check_spec", b""),
        ask("/call/run_agent", b'{"task_ids": ["held-out"]}')["error"].split(":")[0],
        ask("/call/shell", b"{}")[0], ask("/call/budget", b"[")[0], ask("/call/budget", b"[]")[0], other,
    ]
    return StepResult("done", json.dumps(said))
"""

    async def main():
        async with session(tmp_path) as asking, learners.python(tmp_path, body) as made:
            return await made.call(tools=asking.tools())

    passed = {"result": {"passed": True, "issues": []}}
    assert json.loads(run(main).summary) == [
        ["check_spec", "budget", "run_agent"], passed, passed, "run_agent", 404, 400, 400, 404,
    ]  # fmt: skip
