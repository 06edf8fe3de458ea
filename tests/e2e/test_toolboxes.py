"""Tools of every kind, from the command line: used, recorded, resumed, refused."""

import json
import os
import sys
from pathlib import Path

import psutil
import pytest

from eventlog.events import AttemptSuperseded, SettingsChanged, ToolFinished
from tests.cli import shell
from tests.e2e.case import Case, hang
from tests.endpoint.client import running_endpoint
from tests.evrun import engine
from tests.runs import kill, start, wait_until

QUICK = str(Path(__file__).parent.parent / "evrun/mcp_quick.py")
TOKEN = "tok-abcdefgh-0123"
TOOLS = '''
import time

from evrun.tools import ToolContext, tool

print("the file runs")

@tool(safe_to_repeat=True)
def keep(line: str, context: ToolContext) -> dict:
    """Keep a line."""
    with (context.workdir / "kept").open("a") as file:
        file.write(line + "\\n")
    return {"kept": (context.workdir / "kept").read_text().splitlines()}

@tool(timeout_s=0.2)
def stay() -> None:
    """Never return."""
    time.sleep(100_000)
'''


def calls(*turns):
    """Rules: these calls in these turns, then the end."""
    return [
        {"match": {"turn": number}, "then": {"tool_calls": [named(*each) for each in turn]}}
        for number, turn in enumerate(turns, 1)
    ]


def named(name, arguments):
    """A call."""
    return {"name": name, "arguments": arguments}


def results(case):
    """The results of all calls, read, in the order of the log."""
    return [json.loads(event.content) for event in case.events(ToolFinished)]


def servers(directory):
    """The processes of the MCP server that are there, of the test in this directory."""
    found = psutil.process_iter(["cmdline"])
    return [process for process in found if str(directory / "journal") in (process.info["cmdline"] or [])]


@pytest.fixture(name="kit")
def _kit(tmp_path):
    """The options of a run with tools of all kinds."""
    (tmp_path / "mine.py").write_text(TOOLS)
    server = {"command": sys.executable, "args": ["-S", QUICK, str(tmp_path / "journal")]}
    server["env"] = {"A_TOKEN": "$MY_TOKEN"}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"quick": server}}))
    return ("--toolsets", "terminal,python,web,mine,quick", "--tools", "mine.py", "--mcp-config", "mcp.json")


def starts(directory):
    """How often the MCP server was started."""
    journal = directory / "journal"
    return journal.read_text().splitlines().count("start") if journal.exists() else 0


def test_tools_of_every_kind_work_in_one_run(tmp_path, kit):
    """Each gives back what it should, no secret is in any file, one that never returns holds up nothing."""
    rules = calls(
        [("python", {"code": "print(6 * 7)"}), ("terminal", {"command": "echo hi > f; ls"})],
        [("keep", {"line": "a"}), ("keep", {"line": 7}), ("web_fetch", {"url": "http://127.0.0.1:1/"})],
        [("stay", {}), ("add", {"a": 1, "b": 2}), ("environment", {})],
    )
    with running_endpoint(rules=rules) as endpoint:
        case = Case(tmp_path, endpoint, *kit, MY_TOKEN=TOKEN)
        case.write("p")
        ended = case.first()
        assert ended.code == 0, ended
        python, terminal, *rest = results(case)
        assert python == {"output": "42\n", "exit_code": 0, "error": None}
        assert terminal["output"].split() == ["f"]
        assert {"kept": ["a"]} in rest
        assert {"result": "3", "error": None} in rest
        assert {"error": "not done within 0.2 s"} in rest
        assert any("no public address" in str(each.get("error")) for each in rest)
        assert any("Expected `str`, got `int`" in str(each.get("error")) for each in rest)
        assert "A_TOKEN=[redacted:MY_TOKEN]" in str(rest[-1])
        (row,) = case.rows()
        assert row["tool_stats"]["keep"] == {"count": 2, "success": 1, "failure": 1}
        assert row["tool_stats"]["take"] == {"count": 0, "success": 0, "failure": 0}
        assert row["toolsets_used"] == ["terminal", "python", "web", "mine", "quick"]
        files = [path for path in case.run_directory.rglob("*") if path.is_file()]
        assert not [path for path in files if TOKEN.encode() in path.read_bytes()]
    assert servers(tmp_path) == []
    assert starts(tmp_path) == 1


def test_a_resume_with_nothing_to_do_opens_no_tools(tmp_path, kit):
    """Neither the server is started nor the file run: both may be gone by then, and no call is made."""
    with running_endpoint(rules=calls([("add", {"a": 1, "b": 2})])) as endpoint:
        case = Case(tmp_path, endpoint, *kit, MY_TOKEN=TOKEN)
        case.write("p")
        assert case.first().code == 0
        (tmp_path / "mine.py").unlink()
        (tmp_path / "mcp.json").unlink()
        ended = case.resume()
        assert (ended.code, endpoint.totals()["requests"]) == (0, 2), ended
        assert "changed against the record" not in ended.stderr
        assert case.events(SettingsChanged) == []
        assert case.resume("--toolsets", "mine").code == 2
    assert starts(tmp_path) == 1


def test_a_run_that_was_killed_goes_on_with_tools_opened_anew(tmp_path, kit):
    """No server of the first session lives on; nothing is called again; it is one conversation."""
    rules = [
        hang(turn=3),
        *calls([("take", {"text": "x"}), ("keep", {"line": "a"})], [("keep", {"line": "b"})]),
    ]
    with running_endpoint(rules=rules) as endpoint:
        case = Case(tmp_path, endpoint, *kit, MY_TOKEN=TOKEN)
        case.write("p")
        case.killed_at(1)
        # Another directory than that in which the files were named.
        (tmp_path / "elsewhere").mkdir()
        ended = case.resume()
        assert ended.code == 0, ended
        assert servers(tmp_path) == []
        (row,) = case.rows()
        assert (row["attempt"], row["api_calls"]) == (1, 3)
        assert results(case)[-1] == {"kept": ["a", "b"]}
    assert (tmp_path / "journal").read_text().splitlines() == ["start", "take x", "start"]


def test_a_call_that_was_cut_short_is_made_again_only_where_its_tool_says_so(tmp_path, kit):
    """Killed within a call of an MCP tool that says nothing of it: another attempt begins."""
    rules = [{"times": 1, **calls([("hang", {})])[0]}, *calls([("keep", {"line": "a"})])]
    with running_endpoint(rules=rules) as endpoint:
        case = Case(tmp_path, endpoint, *kit, MY_TOKEN=TOKEN)
        case.write("p")
        process = start(*case.command(), cwd=tmp_path, MY_TOKEN=TOKEN)
        wait_until(lambda: starts(tmp_path) == 1 and endpoint.totals()["answered"] == 1, "the call")
        wait_until(lambda: case.run_directory.joinpath("work").exists(), "the tool")
        kill(process)
        assert case.resume().code == 0
        (superseded,) = case.events(AttemptSuperseded)
        assert superseded.reason == "tool hang was interrupted and is not safe to repeat"
        (row,) = case.rows()
        assert row["attempt"] == 2
    assert servers(tmp_path) == []


def test_what_a_changed_file_says_of_its_tools_is_recorded(tmp_path, kit):
    """On a resume that has something to do; the model is told the new, what had the old begins again."""
    with running_endpoint(rules=[hang(turn=2), *calls([("keep", {"line": "a"})])]) as endpoint:
        case = Case(tmp_path, endpoint, *kit, MY_TOKEN=TOKEN)
        case.write("p")
        case.killed_at(1)
        (tmp_path / "mine.py").write_text(TOOLS.replace("Keep a line.", "Keep one line."))
        ended = case.resume()
        assert ended.code == 0, ended
        assert "changed against the record: what the model is told of its tools" in ended.stderr
        (change,) = case.events(SettingsChanged)
        assert change.changes == {}
        assert change.toolsets["mine"][0]["description"] == "Keep one line."
        (superseded,) = case.events(AttemptSuperseded)
        assert superseded.reason == "the rebuilt request differs from the recorded one"


REFUSED = [
    (["--tools", "nosuch.py"], "there is no such file"),
    (["--tools", "broken.py"], "broken.py, line 2: NameError: name 'nosuch' is not defined"),
    (["--tools", "empty.py"], "found no tool in it"),
    (["--tools", "mine.py", "--tools", "again.py"], "the toolsets mine and again both have a tool keep"),
    (["--tools", "mine.py", "--tools", "sub/mine.py"], "there are two toolsets of the name mine"),
    (["--tools", "terminal.py"], "there are two toolsets of the name terminal"),
    (["--tools", "mine.py", "--toolsets", "mine,yours"], "--toolsets yours: expected one of terminal, file"),
    (["--mcp-config", "nosuch.json"], "nosuch.json: No such file"),
    (["--mcp-config", "mine.py"], "bad JSON"),
    (["--mcp-config", "dead.json"], "the MCP server dead could not be started"),
    (["--web-allow", "https://example.org"], "expected a host, *.host, or host:port"),
    (["--toolsets", "mine"], "--toolsets mine: expected one of terminal, file, web, python, or none"),
]


def test_what_cannot_be_used_is_refused_and_nothing_is_begun(tmp_path, monkeypatch):
    """Exit 2, with what to do, and the name stays free; a dry run says the same."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    files = {"broken.py": "x = 1\nnosuch\n", "empty.py": "", "mine.py": TOOLS, "again.py": TOOLS}
    dead = {"mcpServers": {"dead": {"command": "/nosuch/program"}}}
    files |= {"sub/mine.py": TOOLS, "terminal.py": TOOLS, "dead.json": json.dumps(dead)}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    with running_endpoint() as endpoint:
        case = Case(tmp_path, endpoint, "--max-turns", 3)
        case.write("p")
        for options, expected in REFUSED:
            for more in ([], ["--dry-run"]):
                ended = shell.evrun(*case.command(*options, *more), cwd=tmp_path)
                assert ended.code == 2, (options, ended)
                assert expected in ended.err, options
                assert "hint: " in ended.err, options
        assert not list(case.run_directory.glob("log/*.evl"))
        assert endpoint.totals()["requests"] == 0


def test_a_draw_comes_with_ones_own_tools_and_what_is_left_out_is_said(tmp_path, kit):
    """Without --toolsets nothing is lost: what no distribution speaks of is given to every prompt."""
    with running_endpoint() as endpoint:
        case = Case(tmp_path, endpoint, *kit[2:], "--distribution", "browser_tasks", MY_TOKEN=TOKEN)
        case.write("p")
        ended = case.first()
        assert ended.code == 0, ended
        assert "evrun does not have browser, vision" in ended.stderr
        (row,) = case.rows()
        assert row["toolsets_used"][-2:] == ["mine", "quick"]
        few = Case(tmp_path, endpoint, *kit[2:], "--toolsets", "mine", "--run-name", "few")
        ended = few.first()
        assert "not offered, because --toolsets does not name it: quick" in ended.stderr
    assert starts(tmp_path) == 1


def test_a_row_with_an_image_runs_its_commands_in_a_container(tmp_path):
    """And its file tools in the same directory; a row without one stays on the host."""
    path = engine.install(tmp_path / "engine")
    rules = calls(
        [("terminal", {"command": "echo $HOME > f"})],
        [("read_file", {"path": "f"})],
        [("python", {"code": "1"})],
    )
    with running_endpoint(rules=rules) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "terminal,file,python", PATH=with_path(path))
        rows = [{"prompt": "a", "image": "box", "cwd": "/home/box"}, {"prompt": "b"}]
        case.dataset.write_text("".join(json.dumps(row) + "\n" for row in rows))
        ended = case.first("--concurrency", 1)
        assert ended.code == 0, ended
        inside, outside = [each["content"] for each in results(case) if "content" in each]
        assert inside.strip().endswith("/home/box")
        assert "/work/" in outside
    assert [each[each.index("--entrypoint") + 1] for each in engine.runs(tmp_path / "engine")] == [
        "/bin/sh",
        "python3",
    ]


def test_rows_whose_container_cannot_be_fail_by_themselves(tmp_path):
    """Without an image to be had, without an engine; the others go on, nothing is sent for these."""
    path = engine.install(tmp_path / "engine", images=())
    with running_endpoint() as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "terminal", PATH=with_path(path))
        rows = [{"prompt": "a", "image": "box"}, {"prompt": "b"}, {"prompt": "c", "cwd": "/home"}]
        case.dataset.write_text("".join(json.dumps(row) + "\n" for row in rows))
        assert case.first().code == 3
        errors = {
            row["conversations"][-1]["value"]: row["error"]["class"] for row in case.rows("failed.jsonl")
        }
        assert sorted(errors.values()) == ["cwd_without_image", "image_pull"]
        assert case.asked() == ["b"]
        (tmp_path / "engine/images").write_text("box")
        assert case.resume("--retry-failed").code == 3
        assert case.asked() == ["b", "a"]


def test_a_container_that_a_kill_has_left_is_removed_by_the_resume(tmp_path):
    """Its processes belong to the engine: no process group and no marker of ours would find them."""
    path = engine.install(tmp_path / "engine")
    rules = [{"times": 1, **calls([("terminal", {"command": "sleep 619"})])[0]}]
    with running_endpoint(rules=rules) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "terminal", PATH=with_path(path))
        case.dataset.write_text('{"prompt": "a", "image": "box"}\n')
        process = start(*case.command(), cwd=tmp_path, PATH=with_path(path))
        wait_until(
            lambda: sleepers("619") and any((tmp_path / "engine/containers").iterdir()), "the container"
        )
        kill(process)
        assert len(sleepers("619")) == 1
        assert case.resume().code == 0
        assert sleepers("619") == []
        (row,) = case.rows()
        assert row["attempt"] == 2
    assert list((tmp_path / "engine/containers").iterdir()) == []


def test_what_left_its_process_group_ends_with_its_attempt(tmp_path):
    """While the run still goes on with the next prompt."""
    rules = [
        hang(prompt="second"),
        {"times": 1, **calls([("terminal", {"command": "setsid sleep 620 > /dev/null & sleep 0.1"})])[0]},
    ]
    with running_endpoint(rules=rules) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "terminal", "--concurrency", 1)
        case.write("first", "second")
        process = start(*case.command(), cwd=tmp_path)
        wait_until(lambda: endpoint.totals()["faults"] == 1, "the second prompt")
        wait_until(lambda: sleepers("620") == [], "the end of what the first has left")
        kill(process)


def sleepers(seconds):
    """The processes that sleep for so long: each test has a number of its own."""
    found = psutil.process_iter(["cmdline"])
    return [process for process in found if process.info["cmdline"] == ["sleep", seconds]]


def with_path(folder):
    """A path with a folder before all others."""
    return f"{folder}{os.pathsep}{os.environ['PATH']}"
