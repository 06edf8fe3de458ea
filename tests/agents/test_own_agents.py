"""Agents of one's own: recorded, paid once, fed back on a resume; and what becomes of one that goes wrong."""

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from eventlog.events import AttemptSuperseded, ModelAnswered, ModelAsked, ToolFinished
from evrun.batch.agent_setting import absolute_agent
from tests.agents.written import CALLS, FUNCTION, PROGRAM
from tests.e2e.case import Case, hang
from tests.endpoint.client import running_endpoint
from tests.runs import evrun

KILLS = int(os.environ.get("EVRUN_AGENT_KILLS", "3"))
"""How many of the ten places each kind of agent is killed at; spread over all of them."""
PLACES = [round(1 + n * (CALLS - 1) / max(1, KILLS - 1)) for n in range(KILLS)]
AGENTS = {
    "function": ("agent.py", FUNCTION, "agent.py:agent"),
    "program": ("program.py", PROGRAM, "command:python3 program.py"),
}


def case_with(directory: Path, endpoint, kind: str, *options: object) -> Case:
    """A case whose agent is one of `AGENTS`."""
    name, text, spec = AGENTS[kind]
    (directory / name).write_text(text)
    toolsets = ("--toolsets", "terminal") if kind == "function" else ()
    return Case(directory, endpoint, "--agent", spec, *toolsets, "--keep-all", *options)


def turns_of(case: Case) -> list[dict[str, str]]:
    """The conversation of the only trajectory, without its system turn."""
    (row,) = case.rows()
    return row["conversations"][1:]


@pytest.mark.parametrize("kind", AGENTS)
@pytest.mark.parametrize("place", PLACES)
def test_killed_after_any_call_it_pays_only_for_what_is_new(kind, place, tmp_path):
    """It runs again from its start, is answered from the log up to where it was, and ends the same."""
    asked = "p" if place == 1 else f"p: turn {place - 1}"
    with running_endpoint(rules=[hang(contains=asked, turn=1)]) as endpoint:
        case = case_with(tmp_path, endpoint, kind)
        case.write("p")
        case.killed_at(1)
        ended = case.resume()
        assert ended.code == 0, ended
        # Each of the ten is asked for once, and once more what was out at the kill.
        times = Counter(entry["digest"] for entry in endpoint.requests())
        assert sorted(times.values()) == [1] * (CALLS - 1) + [2]
        assert len(case.events(ModelAnswered)) == CALLS
        assert len(case.events(AttemptSuperseded)) == 0
    turns = turns_of(case)
    assert [turn["from"] for turn in turns] == ["human", "gpt"] * CALLS
    assert turns[-2]["value"] == f"p: turn {CALLS - 1}"
    if kind == "function":
        (diary,) = case.run_directory.glob("work/*/diary.txt")
        assert diary.read_text() == "once\n"
    assert evrun("replay", "r", "--check", cwd=tmp_path).code == 0


@pytest.mark.parametrize("kind", AGENTS)
def test_a_cap_in_the_middle_pauses_and_a_raised_one_finishes(kind, tmp_path):
    """Exit 4 with the attempt open; with more room the same attempt goes on; no call is paid twice."""
    with running_endpoint() as endpoint:
        case = case_with(tmp_path, endpoint, kind, "--budget-calls", 4)
        case.write("p")
        first = case.first()
        assert (first.code, first.json["counts"]["open"]) == (4, 1), first
        assert "--budget-calls" in first.json["reason"]
        assert len(endpoint.requests()) == 4
        ended = case.resume("--budget-calls", "none")
        assert (ended.code, ended.json["counts"]["kept"]) == (0, 1), ended
        assert len(endpoint.requests()) == CALLS
    assert case.rows()[0]["attempt"] == 1


@pytest.mark.parametrize("kind", AGENTS)
def test_another_code_than_before_is_one_clear_event_and_a_new_attempt(kind, tmp_path):
    """Changed while it was interrupted: what was recorded is given up whole; nothing of it is mixed in."""
    with running_endpoint(rules=[hang(contains="p: turn 3")]) as endpoint:
        case = case_with(tmp_path, endpoint, kind)
        case.write("p")
        case.killed_at(1)
        name, text, _ = AGENTS[kind]
        (tmp_path / name).write_text(text.replace(": turn {turn}", ": a step {turn}"))
        assert case.resume().code == 0
        (given_up,) = case.events(AttemptSuperseded)
        assert "asked something else than before: chat/completions" in given_up.reason
    assert case.rows()[0]["attempt"] == 2
    assert not any("turn" in turn["value"] for turn in turns_of(case))


def test_an_agent_that_asks_for_less_than_before_has_changed_too(tmp_path):
    """Its recorded calls would stand in a conversation that it did not have."""
    with running_endpoint(rules=[hang(contains="p: turn 5")]) as endpoint:
        case = case_with(tmp_path, endpoint, "function")
        case.write("p")
        case.killed_at(1)
        (tmp_path / "agent.py").write_text(FUNCTION.replace("CALLS = 10", "CALLS = 2"))
        assert case.resume().code == 0
        (given_up,) = case.events(AttemptSuperseded)
        assert "ended without asking" in given_up.reason
    assert case.rows()[0]["api_calls"] == 2


def test_the_log_of_a_chat_grows_with_what_was_said(tmp_path):
    """Ten requests, each with all that was said before, take about ten times what one takes."""
    with running_endpoint() as endpoint:
        case = case_with(tmp_path, endpoint, "program")
        case.write("p" * 2000)
        assert case.first().code == 0
    sizes = [len(event.request) for event in case.events(ModelAsked)]
    assert max(sizes[1:]) < 2 * min(sizes[1:])
    assert max(sizes) < 5000


def test_programs_side_by_side_never_see_each_others_answers(tmp_path):
    """Six rows, four at once, the same questions but for the row's own word."""
    with running_endpoint() as endpoint:
        case = case_with(tmp_path, endpoint, "program", "--concurrency", 4)
        case.write(*(f"word{n}" for n in range(6)))
        assert case.first().code == 0
        assert len(endpoint.requests()) == 6 * CALLS
    for row in case.rows():
        said = {
            turn["value"].split(":")[0].split()[-1]
            for turn in row["conversations"]
            if turn["from"] == "human"
        }
        told = json.dumps([turn["value"] for turn in row["conversations"][1:]])
        assert len(said) == 1
        assert sum(f"word{n}" in told for n in range(6)) == 1


ENDS = {
    "it raises": (
        "async def agent(prompt, ctx):\n    await ctx.complete([])\n    raise KeyError('gone')",
        ["agent_crashed", "agent.py, line 3: KeyError: 'gone'"],
    ),
    "it asks nothing": ("async def agent(prompt, ctx):\n    pass", ["no_answer", "without an answer"]),
    "it never ends": (
        "import asyncio\nasync def agent(p, ctx):\n    await ctx.complete([])\n    await asyncio.sleep(999)",
        ["prompt_timeout", "--prompt-timeout"],
    ),
}


@pytest.mark.parametrize(("text", "told"), ENDS.values(), ids=ENDS)
def test_an_agent_that_goes_wrong_fails_its_prompt_and_says_where(text, told, tmp_path):
    """Exit 3; the run goes on; the failure has its class and its place."""
    (tmp_path / "agent.py").write_text(text)
    with running_endpoint() as endpoint:
        case = Case(tmp_path, endpoint, "--agent", "agent.py:agent", "--prompt-timeout", 2)
        case.write("p")
        assert case.first().code == 3
    (row,) = case.rows("failed.jsonl")
    assert row["error"]["class"] == told[0]
    assert told[1] in row["error"]["message"]


def test_a_program_that_fails_shows_the_end_of_its_output(tmp_path):
    """Its exit code and its last words are the failure."""
    with running_endpoint() as endpoint:
        case = Case(tmp_path, endpoint, "--agent", "command:echo 'no such module' >&2; exit 7")
        case.write("p")
        assert case.first().code == 3
    (row,) = case.rows("failed.jsonl")
    assert row["error"]["class"] == "agent_failed"
    assert "exit code 7" in row["error"]["message"]
    assert "no such module" in row["error"]["message"]


def test_a_program_never_runs_on_the_host_for_a_row_that_wants_a_container(tmp_path):
    """The prompt fails, with the image named; the other rows go on."""
    with running_endpoint() as endpoint:
        case = case_with(tmp_path, endpoint, "program")
        case.dataset.write_text('{"prompt": "p", "image": "127.0.0.1:9/alpine"}\n{"prompt": "q"}\n')
        assert case.first().code == 3
    (row,) = case.rows("failed.jsonl")
    assert row["error"]["class"] in {"no_container", "image_pull"}
    assert len(case.rows()) == 1


def test_a_judge_scores_what_an_own_agent_made(tmp_path):
    """It sees the whole conversation; its call is paid once, and the score stands in the row."""
    (tmp_path / "rubric.txt").write_text("Is it good?")
    rules = [{"match": {"contains": "Is it good?"}, "then": {"text": '{"score": 7, "feedback": "fine"}'}}]
    with running_endpoint(rules=rules) as endpoint:
        case = case_with(tmp_path, endpoint, "program", "--judge", f"llm:{tmp_path / 'rubric.txt'}")
        case.write("p")
        assert case.first().code == 0
        assert len(endpoint.requests()) == CALLS + 1
        assert "p: turn 9" in endpoint.requests()[-1]["prompt"]
    assert [(row["score"], row["feedback"], row["api_calls"]) for row in case.rows()] == [
        (7.0, "fine", CALLS)
    ]


def test_so_many_calls_and_no_more(tmp_path):
    """--max-turns ends an agent that does not end; what it did is a partial trajectory."""
    with running_endpoint() as endpoint:
        case = case_with(tmp_path, endpoint, "program", "--max-turns", 3)
        case.write("p")
        case.first()
        assert len(endpoint.requests()) == 3
    (row,) = case.rows()
    assert (row["finish_reason"], row["partial"], row["api_calls"]) == ("max_turns", True, 3)


def test_a_durable_tool_call_is_recorded_with_its_result(tmp_path):
    """A tool of the run, called by code, is an event pair; one that is not there is an error for the code."""
    text = (
        "async def agent(prompt, ctx):\n"
        "    await ctx.complete([{'role': 'user', 'content': prompt}])\n"
        "    assert (await ctx.tool('terminal', command='echo hi'))['output'] == 'hi\\n'\n"
        "    assert 'unknown tool' in (await ctx.tool('nothing'))['error']\n"
    )
    (tmp_path / "agent.py").write_text(text)
    with running_endpoint() as endpoint:
        case = Case(tmp_path, endpoint, "--agent", "agent.py:agent", "--toolsets", "terminal")
        case.write("p")
        assert case.first().code == 0
    (finished,) = case.events(ToolFinished)
    assert json.loads(finished.content)["output"] == "hi\n"


def test_a_model_without_a_price_is_not_asked_under_a_cap(tmp_path):
    """Its code may ask for any model, and nobody knows what another one costs: only if that is allowed."""
    asking = "await ctx.complete([{'role': 'user', 'content': prompt}], model='x')"
    text = f"async def agent(prompt, ctx):\n    {asking}\n"
    (tmp_path / "agent.py").write_text(text)
    options = ("--agent", "agent.py:agent", "--budget-usd", 5, "--max-tokens", 9, "--price", "m=1,2")
    with running_endpoint() as endpoint:
        case = Case(tmp_path, endpoint, *options)
        case.write("p")
        ended = case.first()
        assert (ended.code, endpoint.requests()) == (3, [])
        case.resume("--retry-failed", "--unknown-price", "allow")
        assert len(endpoint.requests()) == 1


WRONG = {
    "no form": ("swe", "expected chat, FILE.py:FUNCTION"),
    "no file": ("gone.py:agent", "there is no file /"),
    "no function": ("agent.py:other", "it has the async functions agent"),
    "not async": ("agent.py:plain", "not an async function"),
    "no module": ("no.such.module:agent", "No module named"),
    "no command": ("command: ", "names no command"),
    "does not run": ("broken.py:agent", "broken.py, line 2: ZeroDivisionError"),
}


@pytest.mark.parametrize(("spec", "told"), WRONG.values(), ids=WRONG)
def test_an_agent_that_cannot_be_run_is_refused_before_anything_is_made(spec, told, tmp_path):
    """Exit 2, with what is wrong, and no run."""
    (tmp_path / "agent.py").write_text("async def agent(p, c): ...\ndef plain(p, c): ...\n")
    (tmp_path / "broken.py").write_text("x = 1\ny = 1 / 0\n")
    with running_endpoint() as endpoint:
        case = Case(tmp_path, endpoint, "--agent", spec)
        case.write("p")
        ended = case.first()
        assert ended.code == 2, ended
        assert told in ended.stderr
        assert endpoint.requests() == []
    assert not case.run_directory.exists()


def test_the_real_key_is_never_the_programs(tmp_path):
    """It gets a token of its own, which the endpoint of the run knows; the provider gets the key."""
    program = "import os\nopen('env.txt', 'w').write(repr(dict(os.environ)))\n" + PROGRAM
    with running_endpoint(api_key="sk-real-0123456789") as endpoint:
        (tmp_path / "program.py").write_text(program)
        spec = "command:python3 program.py"
        case = Case(tmp_path, endpoint, "--agent", spec, "--keep-all", OPENAI_API_KEY="sk-real-0123456789")
        case.write("p")
        assert case.first().code == 0
    (seen,) = case.run_directory.glob("work/*/env.txt")
    assert "sk-real" not in seen.read_text()
    assert "sk-evrun-" in seen.read_text()
    assert not any(b"sk-evrun-" in path.read_bytes() for path in (case.run_directory / "log").iterdir())


def test_an_agent_that_swallows_its_cancellation_holds_up_nothing(tmp_path):
    """Its prompt fails at its time, the run ends, and so does the process."""
    (tmp_path / "agent.py").write_text(
        "import asyncio\n"
        "async def agent(prompt, ctx):\n"
        "    await ctx.complete([{'role': 'user', 'content': prompt}])\n"
        "    while True:\n"
        "        try:\n"
        "            await asyncio.sleep(100)\n"
        "        except asyncio.CancelledError:\n"
        "            pass\n"
    )
    with running_endpoint() as endpoint:
        case = Case(tmp_path, endpoint, "--agent", "agent.py:agent", "--prompt-timeout", 1)
        case.write("p")
        assert case.first().code == 3
    assert [row["error"]["class"] for row in case.rows("failed.jsonl")] == ["prompt_timeout"]


WORDS = {
    "plain": ("python3 p.py", "python3 {at}/p.py"),
    "with dots": ("python3 ./p.py", "python3 {at}/p.py"),
    "in quotes": ("python3 'my file.py'", "python3 '{at}/my file.py'"),
    "before a semicolon": ("(python3 p.py; echo x)", "(python3 {at}/p.py; echo x)"),
    "in a pipe": ("cat|python3 p.py|cat", "cat|python3 {at}/p.py|cat"),
    "no path": ("echo word 'word'", "echo word '{at}/word'"),
    "not there": ("python3 gone.py a/b", "python3 gone.py a/b"),
    "a part of a word": ("python3 xp.py -c1.p.py", "python3 xp.py -c1.p.py"),
}


@pytest.mark.parametrize(("typed", "recorded"), WORDS.values(), ids=WORDS)
def test_files_of_a_command_are_named_from_the_root(typed, recorded, tmp_path, monkeypatch):
    """A command is typed in one directory and runs in another."""
    monkeypatch.chdir(tmp_path)
    for name in ("p.py", "my file.py", "word"):
        (tmp_path / name).touch()
    assert absolute_agent(f"command:{typed}") == f"command:{recorded.format(at=tmp_path)}"
