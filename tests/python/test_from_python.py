"""`import evrun`: running, reading and refusing from Python, in a script, on a loop, and inside one."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading

import pytest

import evrun
from eventlog.errors import LogLocked
from eventlog.events import ModelAnswered, TrajectoryCompleted
from tests.endpoint.client import running_endpoint
from tests.runs import ROOT, environment, rows_of, wait_until


@pytest.fixture(scope="module", name="endpoint")
def _endpoint():
    with running_endpoint() as endpoint:
        yield endpoint


def ask(endpoint, tmp_path, dataset=("one", "two"), **options):
    """A run of these prompts."""
    given = {"model": "m", "toolsets": [], "progress": False, "base_url": endpoint.base_url, **options}
    name = given.pop("run_name", "r")
    return evrun.run(dataset, run_name=name, output_dir=tmp_path, environment={}, **given)


def test_rows_go_in_and_trajectories_come_out(endpoint, tmp_path):
    """Strings and mappings are rows; what is read from the log is what the files hold."""
    result = ask(endpoint, tmp_path, ["one", {"prompt": "two", "level": 3}], price={"m": "1,2"}, max_tokens=9)
    assert (result.state, result.reason, result.exit_code) == ("done", None, 0)
    rows = list(result.run.trajectories())
    assert rows == rows_of(tmp_path / "r/trajectories.jsonl")
    assert {row["conversations"][1]["value"]: row["metadata"]["level"] for row in rows} == {
        "one": None,
        "two": 3,
    }
    assert list(result.run.trajectories("failed")) == []
    assert result.run.stats() == json.loads((tmp_path / "r/statistics.json").read_text())
    audit = result.run.audit()
    assert audit["calls"]["settled"] == 2
    assert result.report["settled_usd"] == audit["settled_usd"] != "0.00"
    assert len(list(result.run.events(ModelAnswered))) == 2
    assert [record.sequence for record in result.run.events()] == list(
        range(1, result.report["sequence"] + 1)
    )
    assert result.run.state().batch.counts["kept"] == 2
    assert result.run.status()["state"] == "done"
    assert result.run.show("0")["unit"].startswith("prompt:")
    assert result.run.verify().kind == "clean"


def test_views_are_checked_and_made_again(endpoint, tmp_path):
    """Deleted views are missing, and come back to the byte; another directory gets the same."""
    run = ask(endpoint, tmp_path).run
    before = (tmp_path / "r/trajectories.jsonl").read_bytes()
    assert all(file.same for file in run.check())
    (tmp_path / "r/trajectories.jsonl").unlink()
    assert [file.why for file in run.check() if not file.same] == ["missing"]
    run.replay()
    run.replay(tmp_path / "elsewhere")
    assert (tmp_path / "r/trajectories.jsonl").read_bytes() == before
    assert (tmp_path / "elsewhere/trajectories.jsonl").read_bytes() == before


def test_it_works_inside_a_running_loop_and_on_it(endpoint, tmp_path):
    """A notebook has a loop already; an async program may await a run on its own."""

    async def main():
        inside = ask(endpoint, tmp_path)
        on_it = await evrun.run_async(
            ["three"], run_name="s", output_dir=tmp_path, environment={}, progress=False,
            model="m", base_url=endpoint.base_url, toolsets=[],
        )  # fmt: skip
        return inside, on_it

    assert [result.state for result in asyncio.run(main())] == ["done", "done"]


def test_a_function_is_an_agent_and_goes_on_in_another_session(endpoint, tmp_path):
    """Handed over as it is; a resume with it pays nothing again."""

    async def agent(prompt, ctx):
        first = await ctx.complete([{"role": "user", "content": prompt}])
        await ctx.complete(
            [{"role": "user", "content": prompt}, first.message, {"role": "user", "content": "so?"}]
        )

    before = len(endpoint.requests())
    paused = ask(endpoint, tmp_path, ["p"], agent=agent, budget_calls=1)
    assert (paused.state, paused.exit_code) == ("paused", 4)
    done = ask(endpoint, tmp_path, None, agent=agent, budget_calls=None, resume=True)
    assert done.state == "done"
    assert len(endpoint.requests()) == before + 2
    (row,) = done.run.trajectories()
    assert row["api_calls"] == 2


def test_progress_lines_go_where_they_are_wanted(endpoint, tmp_path):
    """A function gets each line; what is said names the endpoint and the settings."""
    lines = []
    ask(endpoint, tmp_path, progress=lines.append, keep_all=True)
    assert any(endpoint.base_url in line for line in lines)
    assert any("require_reasoning false" in line for line in lines)


WRONG = {
    "no such option": ({"modle": "m"}, "did you mean model?"),
    "no amount": ({"budget_usd": "5usd"}, "--budget-usd"),
    "no number": ({"concurrency": 0}, "--concurrency 0"),
    "not async": ({"agent": print}, "not an async function"),
    "no text of a number": ({"concurrency": "many"}, "concurrency='many'"),
    "a function as judge": ({"judge": print}, "judge="),
    "a number as path": ({"mcp_config": 3}, "mcp_config=3"),
    "a row that is none": ({"dataset": ["a", 5]}, "row 2: expected a string or a mapping, found 5"),
    "a value that is none": ({"dataset": [{"prompt": "a", "x": object()}]}, "row 1: "),
}
AS_TYPED = {
    "toolsets": ("none", []),
    "tools": ([], []),
    "num_workers": ("3", 3),
    "providers_allowed": ("a, b", ["a", "b"]),
    "extra_body": ('{"x": 1}', {"x": 1}),
    "header": (["X-A=b"], {"X-A": "b"}),
    "temperature": ("0.5", 0.5),
    "price": ("m=1,2", ["m=1,2"]),
}


def test_values_may_be_given_as_they_are_typed(endpoint, tmp_path):
    """What `evrun run` takes as text is taken as text here too, and recorded as the same setting."""
    typed = {name: value for name, (value, _) in AS_TYPED.items()}
    result = ask(endpoint, tmp_path, **typed)
    found = result.run.state().batch.settings
    names = {"num_workers": "concurrency", "header": "headers", "price": "prices"}
    assert {name: found[names.get(name, name)] for name in typed} == {n: v for n, (_, v) in AS_TYPED.items()}
    assert result.run.show(0) == result.run.show("0")
    with pytest.raises(evrun.UsageFault, match="expected one of kept, discarded, failed"):
        list(result.run.trajectories("all"))


@pytest.mark.parametrize(("options", "told"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_honoured_is_refused(options, told, endpoint, tmp_path):
    """As on the command line: an error with a hint, and nothing is made."""
    with pytest.raises(evrun.UsageFault) as caught:
        ask(endpoint, tmp_path, **options)
    assert told in f"{caught.value} {caught.value.hint}"
    assert not (tmp_path / "r").exists()


def test_a_run_that_is_worked_on_is_refused_and_can_be_read(tmp_path):
    """Two sessions never share a run; reading takes no lock; the first is ended in order by its switch."""
    rules = [{"match": {"contains": "slow"}, "then": {"latency_ms": 1500}}]
    with running_endpoint(rules=rules) as endpoint:
        switch, results = evrun.Switch(), []
        options = {
            "output_dir": tmp_path, "environment": {}, "progress": False, "model": "m", "toolsets": [],
            "base_url": endpoint.base_url, "concurrency": 1,
        }  # fmt: skip

        def work():
            coroutine = evrun.run_async(
                [f"slow {n}" for n in range(50)], run_name="r", switch=switch, **options
            )
            results.append(asyncio.run(coroutine))

        thread = threading.Thread(target=work)
        thread.start()
        wait_until(lambda: endpoint.totals()["in_flight"] > 0, "the first request")
        assert evrun.open_run("r", tmp_path).status()["state"] == "running"
        with pytest.raises(LogLocked):
            evrun.run(None, run_name="r", resume=True, **options)
        switch.turn()
        thread.join()
    assert [result.state for result in results] == ["interrupted"]
    assert (
        1
        <= len(list(results[0].run.events(TrajectoryCompleted))) + results[0].report["counts"]["discarded"]
        < 50
    )


def test_an_interrupted_script_ends_its_run_in_order(tmp_path):
    """Ctrl-C in a script: the calls in flight finish, and the script goes on with a result."""
    script = (
        "import evrun, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "r = evrun.run([f'slow {n}' for n in range(40)], run_name='r', model='m', concurrency=1)\n"
        "print(r.state, r.exit_code)\n"
    )
    rules = [{"match": {}, "then": {"latency_ms": 300}}]
    with running_endpoint(rules=rules) as endpoint:
        process = subprocess.Popen(
            [sys.executable, "-c", script],
            cwd=tmp_path,
            env={**environment(OPENAI_BASE_URL=endpoint.base_url), "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        wait_until(lambda: endpoint.totals()["answered"] > 0, "an answer")
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert out == "interrupted 130\n"


def test_importing_evrun_imports_nothing_heavy():
    """The command line starts quickly because of it."""
    code = (
        "import sys, evrun; print([n for n in ('httpx', 'aiohttp', 'msgspec', 'anyio') if n in sys.modules])"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True)
    assert said.stdout == "[]\n"


def test_a_name_that_evrun_does_not_have_is_an_attribute_error():
    """As for any module."""
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        evrun.nothing  # noqa: B018
    with pytest.raises(evrun.UsageFault, match="no run 'gone'"):
        evrun.open_run("gone")
