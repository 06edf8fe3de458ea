"""What a learner is given, and what becomes of what it gives."""

import pytest

from eventlog.events import LearnerUsage
from evrun.errors import UsageFault
from tests.training import learners
from tests.training.learners import SECRET, bench, once, python, run

SAYS = """
def step(self, ctx):
    (ctx.workspace.scratch / "ADAPTER.md").write_text("from scratch")
    return eval(ctx.params["given"])
finalize = step
"""


REFUSED = {
    "StepResult('finished')": "status is 'finished'; there is done, failed, out_of_budget, stop",
    "None": "step gave None; expected a StepResult",
    "'done'": "step gave 'done'; expected a StepResult",
    "{'status': 'done', 'sumary': ''}": "it gave sumary; a result has status, summary",
    "StepResult('done', 3)": "summary is 3; expected a text",
    "StepResult('done', session=3)": "session is 3; expected a text",
    "StepResult('done', extra={'a': float('nan')})": "cannot be written as JSON",
    "StepResult('done', usage=[Usage(cost_usd=-1.0)])": "usage[0].cost_usd is -1.0; expected an amount",
    "StepResult('done', usage=[Usage(calls=1.5)])": "usage[0].calls is 1.5; expected a whole number",
    "StepResult('done', usage='much')": "usage[0] is 'much'; expected a Usage",
}


def test_a_result_that_is_none_is_refused_by_name(tmp_path):
    """An unknown status above all: it is not taken for `done`, nor anything else that makes no sense."""

    async def main():
        async with python(tmp_path, SAYS) as made:
            for given, said in REFUSED.items():
                refused = await made.call(given=given)
                assert (refused.status, refused.in_order) == ("failed", False), given
                assert said in refused.error

    run(main)


def test_each_status_that_there_is_goes_through(tmp_path):
    """With all fields of a result, money as a decimal number, rounded up, and unknown counts null."""
    fields = "'s', 'r', 'h', Usage('m', 1, 2, 3, None, 0.1 + 0.2), extra={'a': [1, None, 'b']}"
    usage = [LearnerUsage("m", 1, 2, 3, None, 300_000_001)]

    async def main():
        async with python(tmp_path, SAYS) as made:
            for status in ("done", "failed", "out_of_budget", "stop"):
                done = await made.call(given=f"StepResult('{status}', {fields})")
                assert done[:8] == (status, "s", "r", "h", usage, {"a": [1, None, "b"]}, None, True)
                assert not done.paused
                assert not done.diverged

    run(main)


def test_async_methods_and_results_of_other_kinds_are_fine(tmp_path):
    """A coroutine is awaited; a mapping or any object with the fields will do."""
    body = """
async def step(self, ctx):
    from dataclasses import make_dataclass
    if "mapping" in ctx.params:
        return {"status": "out_of_budget", "summary": "mapping"}
    return make_dataclass("Result", ["status", "summary"])("stop", "object")
"""

    async def main():
        async with python(tmp_path, body) as made:
            mapping, thing = await made.call(mapping=1), await made.call()
            assert (mapping.status, mapping.summary, mapping.in_order) == ("out_of_budget", "mapping", True)
            assert (thing.status, thing.summary, thing.in_order) == ("stop", "object", True)

    run(main)


FINAL = {
    "'learned'": ("learned", None, "be brief\n"),
    "None": ("", None, "be brief\n"),
    "{'text': 'learned', 'step': 2}": ("learned", {"step": 2}, "be brief\n"),
    "FinalResult(ctx.workspace.adapter, 'current')": ("current", {"adapter": "chosen"}, "be brief\n"),
    "FinalResult(ctx.workspace.scratch, 'chosen')": ("chosen", {"adapter": "chosen"}, "from scratch"),
}


def test_finalize_may_give_a_text_a_step_or_an_adapter(tmp_path):
    """As in Hermit an adapter's directory may be chosen: its files become those of the working copy."""

    async def main():
        async with python(tmp_path, SAYS) as made:
            for given, (summary, extra, text) in FINAL.items():
                done = await made.call("finalize", given=given)
                assert done[:2] == ("done", summary)
                assert (done.extra, done.in_order) == (extra, True)
                assert (made.workspace.adapter / "ADAPTER.md").read_text() == text

    run(main)


def test_a_finalize_that_chooses_nothing_is_refused(tmp_path):
    """A step that is no number, a directory that is not there."""

    async def main():
        async with python(tmp_path, SAYS) as made:
            for given in ("{'step': 'two'}", "{'adapter': 1}", "FinalResult(ctx.workspace.root / 'x', '')"):
                refused = await made.call("finalize", given=given)
                assert (refused.status, refused.in_order) == ("failed", False), given

    run(main)


def test_setup_and_bootstrap_may_give_nothing(tmp_path):
    """Methods that the class has of its own are known; what `Evolver` only describes is not among them."""

    async def main():
        async with python(
            tmp_path, "def setup(self, ctx): ...\ndef bootstrap(self, ctx): ...\ndef step(self, ctx): ..."
        ) as made:
            assert made.learner.methods == {"setup", "bootstrap", "step"}
            assert (await made.call("setup")).status == "done"
            assert (await made.call("bootstrap")).status == "done"

    run(main)


def test_a_learner_sees_all_that_its_context_promises(tmp_path):
    """Every field of the context, as Hermit's learners use them; what it does not have is refused by name."""
    body = """
def step(self, ctx):
    w, p = ctx.workspace, ctx.progress
    assert w.adapter.is_dir() and w.state.is_dir() and w.scratch.is_dir() and w.history.is_dir()
    assert w.learning_material.name == "material" and w.task_info is None
    assert ctx.access.validation is None and ctx.access.environment == ()
    assert (p.step, p.epoch, p.is_epoch_end) == (3, 2, True)
    assert ctx.params == {"a": [1]} and ctx.message == "do better" and ctx.session == "h"
    assert ctx.sandbox is None and ctx.base.is_dir() and not ctx.cancel.is_set()
    assert ctx.tools["count"](by=2) == {"count": 2} and ctx.tools["count"].name == "count"
    assert self.directory.is_dir() and ctx.tool_url.startswith("http://127.0.0.1:")
    try:
        ctx.tools["fail"](x=1)
    except ToolError as error:
        assert str(error) == "no: {'x': 1}"
    ctx.recorder
"""
    failed, _ = run(once, tmp_path, body, session="h", a=[1])
    assert "AttributeError: evrun gives a learner no ctx.recorder; there is workspace, access" in failed.error


def test_the_task_s_description_is_where_hermit_s_learners_look_too(tmp_path):
    """In the workspace, and among what may be read."""
    body = """
def step(self, ctx):
    return StepResult("done", (ctx.workspace.task_info / "README.md").read_text(), str(ctx.access.task_info))
"""

    async def main():
        async with python(tmp_path, body) as made:
            made.task_info = tmp_path / "info"
            made.task_info.mkdir()
            (made.task_info / "README.md").write_text("what it is about")
            return await made.call()

    done = run(main)
    assert (done.summary, done.rationale) == ("what it is about", str(tmp_path / "info"))


def test_secrets_in_what_a_learner_says_are_replaced(tmp_path):
    """In its log, its words, its extra, and its errors."""
    body = f"""
def step(self, ctx):
    print("{SECRET}")
    if "fail" in ctx.params:
        raise ValueError("{SECRET}")
    return StepResult("done", "{SECRET}", "{SECRET}", "{SECRET}", extra={{"a": "{SECRET}"}})
"""

    async def main():
        async with python(tmp_path, body) as made:
            done, log = await made.call(), made.log
            failed = await made.call(fail=1)
            assert SECRET not in f"{done}{failed}{log}{made.log}"
            assert done.extra == {"a": "[redacted:KEY]"}

    run(main)


UNUSABLE = {
    "x = 1 +": "line 1: SyntaxError",
    "import json\n\nraise KeyError('k')": "line 3: KeyError: 'k'",
    "import no_such_module_here": "ModuleNotFoundError: No module named 'no_such_module_here'",
    "class Other:\n    def step(self, ctx): ...": "there is no class Mine; there is Other",
    "def Mine(ctx): ...": "Mine is no class",
    "class Mine:\n    def setup(self, ctx): ...": "the class Mine has no method step(self, ctx)",
    "from evrun import Evolver\nclass Mine(Evolver): ...": "the class Mine has no method step",
    "class Mine:\n    def __init__(self):\n        1 / 0\n    step = print": "line 3: ZeroDivisionError",
    "import os\nos._exit(4)": "while it was loaded, its process ended with exit code 4",
}


@pytest.mark.parametrize("text", UNUSABLE)
def test_a_learner_that_cannot_be_used_is_refused_at_the_start(tmp_path, text):
    """With the place and what is wrong; nothing was called."""
    (tmp_path / "mine.py").write_text(text)
    assert UNUSABLE[text] in refusal(tmp_path, f"{tmp_path}/mine.py:Mine")


def test_a_learner_s_file_that_is_not_there_is_refused(tmp_path):
    """As a module is that cannot be imported."""
    assert "there is no file" in refusal(tmp_path, f"{tmp_path}/mine.py:Mine")
    assert "No module named 'no_such_module_here'" in refusal(tmp_path, "no_such_module_here:Mine")


def refusal(directory, name):
    """What is said of a learner at the start."""

    async def main():
        async with bench(directory, name):
            pass

    with pytest.raises(UsageFault) as refused:
        run(main)
    assert str(refused.value).startswith(f"evolver.name {name}: ")
    return str(refused.value)


def test_a_name_of_no_form_is_refused(tmp_path):
    """With the forms that there are."""
    with pytest.raises(UsageFault) as refused:
        learners.Bench(tmp_path, "skillopt", {})
    assert refused.value.hint == "gepa, reflect, FILE.py:CLASS, MODULE:CLASS or command:CMD"


def test_files_of_the_current_directory_hide_nothing_from_a_learner(tmp_path, monkeypatch):
    """Somebody's queue.py, beside run.yaml, is not the library's to anybody."""
    for name in ("queue.py", "json.py", "msgspec.py"):
        (tmp_path / name).write_text("raise ValueError")
    monkeypatch.chdir(tmp_path)
    done, _ = run(once, tmp_path, "def step(self, ctx):\n    import json\n    return StepResult()")
    assert done.in_order
