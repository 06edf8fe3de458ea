import json
import os
import sys
import threading
from contextlib import asynccontextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import anyio
import psutil
import pytest

from evrun.effects.orphans import kill_orphans
from evrun.effects.secrets import Redactor
from evrun.errors import UsageFault
from evrun.tools import Sources, ToolContext, open_toolbox, parse_arguments, prepare, run_tool
from evrun.tools.mcp_config import read_servers, server_names
from tests.evrun import mcp_quick
from tests.evrun.boxes import SECRET

STAND = str(Path(__file__).parent / "mcp_stand.py")
QUICK = str(Path(__file__).parent / "mcp_quick.py")
FIVE = {"result": "5", "error": None}
TOKEN = "tok-abcdefgh-0123"


def config(directory, **servers):
    """A file that names these servers."""
    path = directory / "mcp.json"
    path.write_text(json.dumps({"mcpServers": servers}))
    return path


def stand(*arguments, **more):
    """How the quick server is started."""
    return {"command": sys.executable, "args": ["-S", QUICK, *map(str, arguments)], **more}


def real():
    """How the server of the mcp package is started."""
    return {"command": sys.executable, "args": [STAND]}


def sources(path, asked=None, tools=()):
    """What a run would say."""
    return Sources(asked, "terminal_only", list(tools), str(path), None)


@asynccontextmanager
async def opened(path, environment=None, asked=None, marker="test-mcp"):
    """The toolbox of a session with these servers."""
    prepared = prepare(sources(path, asked), environment or {})
    async with open_toolbox(prepared, environment or {}, marker=marker) as box:
        yield box


async def call(box, name, *, directory=Path(), timeout_s=60.0, **arguments):
    """The result of a call, read."""
    tool = box.find(name)
    checked = parse_arguments(json.dumps(arguments), tool)
    if isinstance(checked, str):
        return checked
    context = ToolContext(directory, "test/unit-a1", timeout_s, Redactor({"KEY": SECRET}))
    return json.loads(await run_tool(tool, checked, context))


def of_stand():
    """The processes of servers that are there, started from here."""
    found = psutil.Process().children(recursive=True)
    return [process for process in found if {STAND, QUICK} & set(process.cmdline())]


def test_a_server_is_a_toolset_and_its_tools_are_called(tmp_path):
    """One of the mcp package's own: what it says of its tools, what they give back, whose name is whose."""

    async def use():
        async with opened(config(tmp_path, stand=real(), quick=stand())) as box:
            assert box.names == ("terminal", "file", "web", "python", "stand", "quick")
            await look_at_what_is_given_back(box)
            look_at_what_is_said(box)
            names = [tool["name"] for tool in box.definitions(["stand"])["stand"]]
            # Both have it, and so it goes by its server's name; those that one has alone stay as they are.
            assert {"stand_add", "put", "read_page"} <= set(names)
            assert box.find("add") is None
            assert await call(box, "quick_add", a=2, b=2) == {"result": "4", "error": None}

    anyio.run(use)
    assert of_stand() == []


async def look_at_what_is_given_back(box):
    """Structured content comes as it is, texts are joined, an error is an error."""
    assert await call(box, "stand_add", a=1, b=2) == {"result": 3}
    assert await call(box, "parts") == {"result": "one\n[image/png: left out]\ntwo", "error": None}
    assert await call(box, "fail") == {"error": "no luck"}
    assert await call(box, "stand_add", a=1) == "stand_add needs the argument b"
    assert "validation" in (await call(box, "stand_add", a="x", b=2))["error"]
    assert await call(box, "read_page", page="f") == {"result": "content of f"}


def look_at_what_is_said(box):
    """Read-only tools may be repeated, and run beside others; idempotent ones may; all others may not."""
    tools = [box.find(name) for name in ("stand_add", "put", "parts")]
    assert [(tool.safe_to_repeat, tool.concurrent) for tool in tools] == [
        (True, True),
        (True, False),
        (False, False),
    ]
    (definition,) = [t for t in box.definitions(["stand"])["stand"] if t["name"] == "stand_add"]
    assert definition["description"] == "Add two numbers."
    assert definition["parameters"]["required"] == ["a", "b"]


def test_a_server_sees_no_secret_but_those_that_its_file_gives_it(tmp_path, monkeypatch):
    """`$NAME` is taken from the environment; what it stands for is replaced wherever it turns up."""
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("MY_TOKEN", TOKEN)
    env = {"A_TOKEN": "$MY_TOKEN", "B": "x-${MY_TOKEN}-y", "MODE": "fast", "PRICE": "5$"}

    async def use():
        async with opened(config(tmp_path, stand=stand(env=env)), dict(os.environ)) as box:
            return (await call(box, "environment"))["result"], box.secrets

    said, secrets = anyio.run(use)
    lines = said.splitlines()
    assert {f"A_TOKEN={TOKEN}", f"B=x-{TOKEN}-y", "MODE=fast", "PRICE=5$"} <= set(lines)
    assert "EVRUN_ATTEMPT=test-mcp/mcp-stand" in lines
    assert not any(line.startswith(("OPENAI", "MY_TOKEN", "PYTHON")) for line in lines)
    assert TOKEN not in Redactor(secrets).clean_text(said)
    assert "MODE=fast" in Redactor(secrets).clean_text(said)


def test_a_server_that_ends_is_started_again_and_its_call_is_an_error(tmp_path):
    """Nobody knows what the call had done; those after it go to the new process."""
    journal = tmp_path / "journal"

    async def use():
        async with opened(config(tmp_path, stand=stand(journal))) as box:
            for _ in range(3):
                assert "ended during the call" in (await call(box, "die"))["error"]
                assert await call(box, "add", a=2, b=3) == FIVE
            for process in of_stand():
                process.kill()
            # The kill may be noticed by this call or before it.
            first = await call(box, "add", a=2, b=3)
            assert first == FIVE or "ended during the call" in first["error"]
            assert await call(box, "add", a=2, b=3) == FIVE

    anyio.run(use)
    assert len(journal.read_text().splitlines()) == 5


def test_a_server_that_always_ends_is_not_started_for_ever(tmp_path):
    """Its calls become errors, at once."""
    journal = tmp_path / "journal"
    journal.write_text("")
    script = f'test -s {journal} && exit 3; exec "$@"'
    server = {"command": "/bin/sh", "args": ["-c", script, "sh", sys.executable, QUICK, str(journal)]}

    async def use():
        async with opened(config(tmp_path, stand=server)) as box:
            assert "ended during the call" in (await call(box, "die"))["error"]
            assert "does not come back" in (await call(box, "add", a=2, b=3))["error"]
            assert "does not come back" in (await call(box, "add", a=2, b=3))["error"]

    anyio.run(use)
    assert len(journal.read_text().splitlines()) == 1


def test_a_call_that_never_ends_is_left_at_the_prompts_deadline(tmp_path):
    """The server goes on and answers the next one, or is ended with the session."""

    async def use():
        async with opened(config(tmp_path, stand=stand())) as box:
            return await call(box, "hang", timeout_s=0.3)

    assert anyio.run(use) == {"error": "hang: not done within 0.3 s"}
    assert of_stand() == []


def test_what_a_server_leaves_behind_carries_the_mark(tmp_path):
    """So a session's end, or the next session after a crash, finds it."""

    async def use():
        async with opened(config(tmp_path, stand=stand()), marker="test-mcp-mark") as box:
            assert await call(box, "have_a_child") == {"result": "done", "error": None}

    anyio.run(use)
    assert [each.command for each in kill_orphans("test-mcp-mark")] == ["sleep 617"]


@pytest.mark.parametrize(
    ("server", "problem"),
    [
        ({"command": "/nosuch/program"}, "could not be started"),
        ({"command": "/bin/sh", "args": ["-c", "echo out of paper >&2; exit 3"]}, "it said: out of paper"),
        ({"command": "/bin/echo", "args": ["not a server"]}, "could not be started"),
        ({"command": sys.executable, "args": [QUICK], "cwd": "/nosuch"}, "could not be started"),
        ({"url": "http://127.0.0.1:9/mcp"}, "could not be started"),
    ],
)
def test_a_server_that_does_not_start_is_refused(tmp_path, server, problem):
    """With what it said; nothing is left of it, nor of one that did start."""

    async def use():
        async with opened(config(tmp_path, bad=server, good=stand())):
            raise AssertionError("it started")

    with pytest.raises(UsageFault, match="the MCP server bad") as refused:
        anyio.run(use)
    assert problem in str(refused.value)
    assert of_stand() == []


def test_what_a_broken_server_prints_of_its_secrets_is_replaced(tmp_path):
    """Its last words go to the terminal, and perhaps into somebody's logs."""
    env = {"TOKEN": "$MY_TOKEN"}
    broken = {"command": "/bin/sh", "args": ["-c", "echo $TOKEN >&2; exit 3"], "env": env}

    async def use():
        async with opened(config(tmp_path, bad=broken), {"MY_TOKEN": TOKEN}):
            raise AssertionError("it started")

    with pytest.raises(UsageFault) as refused:
        anyio.run(use)
    assert TOKEN not in str(refused.value)
    assert "[redacted:" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "bad JSON"),
        ("[]", "names no servers"),
        ('{"mcpServers": {}}', "names no servers"),
        ('{"mcpServers": {"a b": {"command": "x"}}}', "cannot be a toolset's name"),
        ('{"mcpServers": {"a": {}}}', "either command or url"),
        ('{"mcpServers": {"a": {"command": "x", "url": "http://y"}}}', "either command or url"),
        ('{"mcpServers": {"a": {"url": "ftp://y"}}}', "no http or https address"),
        ('{"mcpServers": {"a": {"command": "x", "args": "y"}}}', "Expected `array`"),
        (
            '{"mcpServers": {"a": {"command": "x", "env": {"K": "$NOSUCH"}}}}',
            "wants $NOSUCH, which is not set",
        ),
        ('{"mcpServers": {"file": {"command": "x"}}}', "two toolsets of the name file"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_before_anything_starts(tmp_path, text, problem):
    """With the server and what is wrong."""
    path = tmp_path / "mcp.json"
    path.write_text(text)
    with pytest.raises(UsageFault) as refused:
        prepare(sources(path), {})
    assert problem in str(refused.value)
    assert refused.value.hint or "no http" in problem


def test_a_file_that_is_not_there_is_refused(tmp_path):
    """With its path."""
    with pytest.raises(UsageFault, match=r"nosuch\.json: No such file"):
        server_names(tmp_path / "nosuch.json")


def test_only_the_servers_that_are_wanted_are_read(tmp_path):
    """Another one's missing variable harms nobody; disabled ones are passed over."""
    path = config(tmp_path, one=stand(), two=stand(env={"K": "$NOSUCH"}), three={**stand(), "disabled": True})
    assert list(read_servers(path, {}, {"one", "three"}).servers) == ["one"]
    unused = prepare(sources(path, ["one", "file"]), {}).unused
    assert unused == ["two", "three"]


def test_a_session_that_ends_by_an_error_ends_its_servers(tmp_path):
    """And the error is the one that was raised."""

    async def use():
        async with opened(config(tmp_path, stand=stand())):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        anyio.run(use)
    assert of_stand() == []


def test_a_cancelled_session_ends_its_servers(tmp_path):
    """As a signal would."""

    async def use():
        with anyio.move_on_after(60) as scope:
            async with opened(config(tmp_path, stand=stand())) as box, anyio.create_task_group() as group:
                group.start_soon(partial(call, box, "hang"))
                await anyio.wait_all_tasks_blocked()
                scope.cancel()

    anyio.run(use)
    assert of_stand() == []


class Remote(BaseHTTPRequestHandler):
    """A server at a URL; `seen` are the headers of each request."""

    seen: ClassVar[list] = []
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        """Answer as the quick server does."""
        self.seen.append(dict(self.headers))
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "id" not in asked:
            return self.say(202, b"")
        result = mcp_quick.answer(asked["method"], asked.get("params") or {})
        said = {"error": {"code": -32601, "message": "no"}} if result is None else {"result": result}
        return self.say(200, json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}).encode())

    def do_GET(self):
        """There is no stream of the server's own."""
        self.say(405, b"")

    def say(self, status, body):
        """One answer."""
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Say nothing."""


def test_a_server_at_a_url_gets_the_headers_of_its_file(tmp_path):
    """Their variables are filled in, and their values are secrets."""
    remote = ThreadingHTTPServer(("127.0.0.1", 0), Remote)
    threading.Thread(target=remote.serve_forever, args=(0.01,), daemon=True).start()
    url = f"http://127.0.0.1:{remote.server_address[1]}/mcp"
    headers = {"Authorization": "Bearer $MY_TOKEN", "X-Team": "seven"}

    async def use():
        file = config(tmp_path, remote={"url": url, "headers": headers})
        async with opened(file, {"MY_TOKEN": TOKEN}) as box:
            return await call(box, "add", a=2, b=3), box.secrets

    found, secrets = anyio.run(use)
    remote.shutdown()
    remote.server_close()
    assert found == FIVE
    sent = [{name.lower(): value for name, value in each.items()} for each in Remote.seen]
    assert {(each["authorization"], each["x-team"]) for each in sent} == {(f"Bearer {TOKEN}", "seven")}
    assert Redactor(secrets).clean_text(f"it was {TOKEN}.") != f"it was {TOKEN}."
