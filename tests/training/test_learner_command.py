"""A learner that is any program: what it is told, what it says, and what is counted however it ends."""

import json
import sys

import pytest

from eventlog.events import LearnerUsage
from evrun.batch.control import Ending
from evrun.errors import UsageFault
from tests.endpoint.client import running_endpoint
from tests.training.learner_log import session
from tests.training.learners import SECRET, Bench, bench, run
from tests.training.test_learner_process import gone

USAGE = LearnerUsage("m", 10, None, 5, 1, 40_000_000)
SPENT = '{"model": "m", "input_tokens": 10, "output_tokens": 5, "calls": 1, "cost_usd": 0.04}'


async def once(directory, text, *, method="step", ask=None, tools=None, timeout_s=60.0, **params):
    """One call of a learner that is a Python program with this text; what came back, and the bench."""
    program = directory / "program.py"
    program.write_text(f"import json, os, sys, time, urllib.request\n{text}")
    async with bench(directory, f"command:{sys.executable} {program}", **params) as made:
        return await made.call(method, ask=ask, tools=tools, timeout_s=timeout_s), made


def test_a_program_changes_the_adapter_and_says_what_it_did(tmp_path):
    """Its context is a file of JSON under both names, its directory the workspace; its prints are kept."""
    done, made = run(once, tmp_path, TELLS, x=[1], env=["PATH"])
    assert (done.status, done.summary, done.in_order) == ("done", "told", True)
    assert done.usage == [USAGE]
    told = done.extra
    assert told["call"] == "step"
    assert told["progress"] == {"epoch": 2, "step": 3, "is_epoch_end": True}
    assert told["params"] == {"x": [1]}
    assert (told["message"], told["session"], told["timeout_s"]) == ("do better", None, 60.0)
    assert told["workspace"]["adapter"] == str(made.workspace.adapter)
    assert told["access"] == {"validation": None, "task_info": None, "environment": []}
    assert (made.workspace.adapter / "ADAPTER.md").read_text() == "be brief\nbe kind\n"
    assert made.log == "printed\n"


TELLS = f"""
print("printed")
context = json.load(open(os.environ["EVRUN_CONTEXT"]))
assert os.environ["HA_CONTEXT"] == os.environ["EVRUN_CONTEXT"]
with open("adapter/ADAPTER.md", "a") as file:
    file.write("be kind\\n")
result = {{"status": "done", "summary": "told", "usage": [{SPENT}], "extra": context}}
json.dump(result, open("output/step_result.json", "w"))
"""


def test_a_program_that_says_nothing_has_done_its_work(tmp_path):
    """Exit code 0 and no result: done, with whatever its files are."""
    done, made = run(once, tmp_path, "")
    assert (done.status, done.summary, done.in_order) == ("done", "", True)
    assert made.learner.methods == {"step"}


def test_a_program_that_fails_after_spending_is_booked_with_what_it_wrote(tmp_path):
    """Exit code 3, the result written before: failed, its files do not count, its money does."""
    result = f'{{"status": "done", "summary": "s", "usage": [{SPENT}]}}'
    text = f"open('output/step_result.json', 'w').write('{result}')\nsys.exit('out of luck')"
    failed, _ = run(once, tmp_path, text)
    assert (failed.status, failed.in_order) == ("failed", False)
    assert failed.usage == [USAGE]
    assert failed.error == "the learner's program ended with exit code 1; the end of its output: out of luck"


def test_what_a_program_notes_while_it_works_counts_however_it_ends(tmp_path):
    """Lines in usage.jsonl: after a failure, a signal, the deadline; a cut line is an unknown cost."""
    note = f"file = open('output/usage.jsonl', 'a')\nfile.write('{SPENT}\\n')\nfile.flush()\n"
    for end in ("sys.exit(3)", "os.kill(os.getpid(), 9)", "time.sleep(60)"):
        failed, _ = run(once, tmp_path, note + end, timeout_s=4.0 if "sleep" in end else 60.0)
        assert (failed.in_order, failed.usage) == (False, [USAGE]), end
    cut, _ = run(once, tmp_path, f"{note}file.write('{SPENT[:30]}')\nfile.flush()\nsys.exit(3)")
    assert cut.usage == [USAGE, LearnerUsage("", None, None, None, None, None)]
    done, _ = run(once, tmp_path, note)
    assert (done.in_order, done.usage) == (True, [USAGE])


ASKS = """
body = {"model": os.environ["OPENAI_MODEL"], "messages": [{"role": "user", "content": "how?"}]}
headers = {"content-type": "application/json", "authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
address = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
said = json.load(urllib.request.urlopen(urllib.request.Request(address, json.dumps(body).encode(), headers)))
tool = urllib.request.urlopen(os.environ["EVRUN_TOOL_URL"] + "/call/check_spec", b"{}").read()
print(said["choices"][0]["message"]["content"], tool.decode())
"""


def test_what_a_failing_program_asked_through_evrun_is_booked(tmp_path):
    """Its model call is in the ledger, paid; run again it gets the same answer, and pays nothing."""

    async def main(endpoint, end):
        async with session(tmp_path, endpoint.base_url) as asking:
            done, made = await once(tmp_path, ASKS + end, ask=asking.ask, tools=asking.tools())
            return done, made.log, asking.settled

    with running_endpoint() as endpoint:
        failed, log, paid = run(main, endpoint, "sys.exit(3)")
        assert (failed.status, failed.in_order) == ("failed", False)
        assert log == 'Answer to how? {"result": {"passed": true, "issues": []}}\n'
        assert paid > 0
        done, _, after = run(main, endpoint, "")
        assert (done.in_order, after) == (True, paid)
        assert endpoint.totals()["billed"] == 1


def test_a_program_is_stopped_at_its_deadline_with_its_group(tmp_path):
    """What it printed until then is in its log."""
    text = """
import subprocess
print(subprocess.Popen(["sleep", "60"]).pid, os.getpid(), flush=True)
time.sleep(60)
"""
    stopped, made = run(once, tmp_path, text, timeout_s=4.0)
    assert (stopped.status, stopped.in_order) == ("failed", False)
    assert stopped.error == "the learner's step was stopped: not done within 4 s (trainer.call_timeout_min)"
    assert all(gone(int(pid)) for pid in made.log.split())


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ('{"status": "finished"}', "status is 'finished'; there is done, failed, out_of_budget, stop"),
        ('{"status": "done"', "output/step_result.json cannot be read"),
        ("[]", "output/step_result.json is no JSON object"),
        ('{"summary": 3}', "summary is 3; expected a text"),
    ],
)
def test_a_program_s_result_that_is_none_is_refused_by_name(tmp_path, result, said):
    """Though its exit code is 0."""
    failed, _ = run(once, tmp_path, f"open('output/step_result.json', 'w').write('''{result}''')")
    assert (failed.status, failed.in_order) == ("failed", False)
    assert said in failed.error


def test_a_program_sees_no_secrets_but_those_that_it_is_given(tmp_path, monkeypatch):
    """Its environment is the short list of all programs; `evolver.params.env` names what is added."""
    monkeypatch.setenv("OTHER_KEY", SECRET)
    monkeypatch.setenv("GIVEN_KEY", "sk-given")
    text = "print(json.dumps([dict(os.environ), sys.stdin.read()]))"
    _, made = run(once, tmp_path, text, env=["GIVEN_KEY"])
    environment, stdin = json.loads(made.log)
    assert "OTHER_KEY" not in environment
    assert environment["GIVEN_KEY"] == "sk-given"
    assert environment["EVRUN_ATTEMPT"] == f"{made.marker}/learner"
    assert environment["HOME"] == str(made.workspace.scratch)
    assert stdin == ""


def test_a_program_gets_the_calls_that_it_wants(tmp_path):
    """With `evolver.params.calls`; its context says which one it is."""
    text = "print(json.load(open(os.environ['EVRUN_CONTEXT']))['call'])"
    done, made = run(once, tmp_path, text, method="finalize", calls=["step", "finalize"])
    assert made.learner.methods == {"step", "finalize"}
    assert (done.status, made.log) == ("done", "finalize\n")


@pytest.mark.parametrize(
    ("name", "params", "said"),
    [
        ("command: ", {}, "names no command"),
        ("command:x", {"calls": ["step", "train"]}, "calls has train; there is setup, bootstrap, step"),
        ("command:x", {"calls": ["setup"]}, "calls has no step"),
        ("command:x", {"calls": "step"}, "calls is 'step'; expected a list of names"),
        (
            "command:x",
            {"env": ["NO_SUCH_VARIABLE"]},
            "NO_SUCH_VARIABLE, which your environment does not have",
        ),
    ],
)
def test_a_program_that_cannot_be_called_is_refused_at_the_start(tmp_path, name, params, said):
    """Before anything is spent."""
    with pytest.raises(UsageFault) as refused:
        run(Bench(tmp_path, name, params).learner.start)
    assert said in str(refused.value)


def test_a_program_that_is_not_there_fails_its_call(tmp_path):
    """The shell says so."""

    async def main():
        async with bench(tmp_path, "command:no-such-program-here") as made:
            return await made.call()

    failed = run(main)
    assert failed.status == "failed"
    assert "exit code 127" in failed.error


def test_a_program_at_work_when_the_run_ends_is_called_again(tmp_path, monkeypatch):
    """It is ended after a while, and its call stays open."""
    monkeypatch.setattr("evrun.training.learner_watch.LAST_WORDS_S", 0.2)

    async def main():
        async with bench(tmp_path, "command:sleep 60") as made:
            made.control.stop(Ending("interrupted", 130, "ended by SIGINT"))
            return await made.call()

    ended = run(main)
    assert (ended.paused, ended.in_order) == (True, False)
