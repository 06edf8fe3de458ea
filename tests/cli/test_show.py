"""`evrun show`: one prompt from beginning to end, readable, whole, and harmless to a terminal."""

import json
import os
import pty
import subprocess

import pytest

from eventlog.events import (
    AttemptSuperseded,
    BudgetReserved,
    BudgetSpent,
    ModelAnswered,
    PlannedRow,
    PromptsPlanned,
    PromptStarted,
    SpendCorrected,
    SpendInDoubt,
    ToolFinished,
    ToolStarted,
    TrajectoryCompleted,
    TrajectoryImported,
    TrajectoryJudged,
    TrajectoryRestored,
    Usage,
    encode_event,
)
from tests.cli.shell import ENVIRONMENT, EVRUN, evrun, evrun_process
from tests.cli.story import (
    CONTENTS,
    COUNTS,
    SETTINGS,
    UNITS,
    answered,
    asked,
    crashed,
    finished,
    opening,
    tell,
    writer,
)

BAD = "red \x1b[31m, clear \x1b[2J, title \x1b]0;x\x07, bell \x07, back \x08, c1 \x9b31m, turn \u202e, \ud800"


def started(unit, attempt, call):
    """Another attempt at a unit, with its first call."""
    reserved = BudgetReserved(
        call, UNITS[unit], attempt, "rollout", "some/model", "h", bytes(32), 2_000_000, 40, 100, "bytes"
    )
    return [PromptStarted(UNITS[unit], attempt, ["terminal"], b"s" * 16), reserved]


def said_with_calls(call, text, calls):
    """An answer with tool calls."""
    message = {
        "content": text,
        "reasoning_content": "First the list.\nThen the sum.",
        "tool_calls": [
            {"id": f"id{n}", "function": {"name": name, "arguments": arguments}}
            for n, (name, arguments) in enumerate(calls)
        ],
    }
    body = {"choices": [{"finish_reason": "tool_calls", "message": message}], "usage": {"prompt_tokens": 20}}
    spent = BudgetSpent(call, Usage(20, None, 30, 5), 1_000_000, "a price list")
    return [spent, ModelAnswered(call, json.dumps(body).encode(), 250, None)]


@pytest.fixture
def tools(tmp_path):
    """`data/tools`: a tool-calling attempt that was superseded, and a second one that is still open."""
    u = UNITS[0]
    calls = [
        ("terminal", '{"command": "ls -l\\nwc", "timeout_s": 5}'),
        ("terminal", "{broken"),
        ("nope", "{}"),
    ]
    result = json.dumps(
        {"output": f"a\tb\n{BAD}".encode("utf-8", "surrogatepass").decode("utf-8", "replace")}
    )
    commits = [
        *opening(),
        asked(0, "s1.c1"),
        said_with_calls("s1.c1", f"Looking. {BAD[:-1]}", calls),
        [ToolStarted(u, 1, 1, 0, "terminal", bytes(16)), ToolStarted(u, 1, 1, 1, "terminal", bytes(16))],
        [ToolFinished(u, 1, 1, 0, result.encode(), True, 12)],  # noqa: FBT003
        asked(1, "s1.c2"),
        answered("s1.c2", "the answer of somebody else"),
        [AttemptSuperseded(u, 1, "its directory is gone")],
        started(0, 2, "s1.c12"),
        answered("s1.c12", "two"),
    ]
    return tell(tmp_path / "data/tools", commits)


def test_a_kept_prompt_is_told_from_beginning_to_end(crash, tmp_path):
    """The facts, the prompt, the reasoning, the answer, the end."""
    said = evrun("show", "crash", "0", cwd=tmp_path)
    assert (said.code, said.err) == (0, "")
    facts, *sections = said.out.split("\n== ")
    assert f"unit      {UNITS[0]}\nprompt    0 in batch 1, sample 1\n" in facts
    assert "state     kept\n" in facts
    assert "tokens    20 input, 30 output, 5 reasoning\n" in facts
    assert "cost      0.00185 USD in 1 calls" in facts
    assert sections == [
        "user\n  What is 1 + 1?\n",
        "assistant, turn 1 (stop, 250 ms)\n  reasoning:\n    Let me add.\n  2\n",
        "kept\n  stop, completed\n",
    ]


@pytest.mark.parametrize(
    "text", [UNITS[1], UNITS[1].removeprefix("prompt:"), CONTENTS[1].hex(), CONTENTS[1].hex()[:5], "1", "1.1"]
)
def test_a_prompt_is_known_by_name_by_content_and_by_place(crash, tmp_path, text):
    """The unit's name, its content id or the beginning of that, its prompt_index: the same prompt."""
    assert evrun("show", "crash", text, "--json", cwd=tmp_path).json["unit"] == UNITS[1]


def test_what_is_not_there_is_exit_2_with_what_is_near(crash, tmp_path):
    """A mistyped name names its neighbours, an index too high the highest one."""
    mistyped = UNITS[2].replace(CONTENTS[2].hex()[-4:], "zzzz")
    said = evrun("show", "crash", mistyped, cwd=tmp_path)
    assert (said.code, said.out) == (2, "")
    assert UNITS[2] in said.err
    said = evrun("show", "crash", "3", cwd=tmp_path)
    assert said.code == 2
    assert "from 0 to 2" in said.err
    said = evrun("show", "crash", "0", "--attempt", "2", cwd=tmp_path)
    assert said.code == 2
    assert "its attempts: 1" in said.err


def test_what_may_be_several_prompts_names_them(tmp_path):
    """Three samples of a row have one index and one content id; `0.2` and the name say which."""
    row = PlannedRow(CONTENTS[0], 1, 0, 1, b'{"prompt": "x"}', 1, 3)
    tell(tmp_path / "data/r", [opening()[0], [PromptsPlanned([row], complete=True)]])
    for text in ("0", CONTENTS[0].hex()[:4], f"{CONTENTS[0].hex()}#1"):
        said = evrun("show", "r", text, cwd=tmp_path)
        assert said.code == 2
        assert f"{UNITS[0][:-1]}3" in said.err
    for text in ("0.2", f"{CONTENTS[0].hex()[:4]}#1.2"):
        told = evrun("show", "r", text, "--json", cwd=tmp_path).json
        assert (told["sample"], told["outcome"], told["attempt"]) == (2, "pending", None)
    assert "pending: no attempt has begun" in evrun("show", "r", "0.2", cwd=tmp_path).out


def test_a_failed_prompt_shows_its_error_and_the_calls_that_led_to_it(done, tmp_path):
    """The class, the message, the call in doubt."""
    said = evrun("show", "done", "2", cwd=tmp_path)
    assert "state     failed: timeout" in said.out
    assert "== calls without a usable answer\n  s1.c3: timeout: no answer in 120 s\n" in said.out
    assert "== calls in doubt\n  s1.c3, rollout, sent 2026-11-29T12:00:" in said.out
    assert "== failed\n  timeout: no answer in 120 s\n" in said.out
    told = evrun("show", "done", "2", "--json", cwd=tmp_path).json
    assert told["attempt"]["error"] == {
        "class": "timeout", "message": "no answer in 120 s", "status": None, "retryable": True
    }  # fmt: skip


def test_a_discarded_prompt_says_by_which_rule_and_a_restored_one_is_kept(done, tmp_path):
    """The outcome is the one in force now."""
    assert "state     discarded: no_reasoning" in evrun("show", "done", "1", cwd=tmp_path).out
    with writer(done) as log:
        log.append([encode_event(TrajectoryRestored(UNITS[1], True, None, COUNTS))])  # noqa: FBT003
    told = evrun("show", "done", "1", "--json", cwd=tmp_path).json
    assert (told["outcome"], told["attempt"]["outcome"], told["attempt"]["finish_reason"]) == (
        "kept",
        "kept",
        "stop",
    )


def test_an_open_prompt_shows_the_call_that_is_out(crash, tmp_path):
    """Under way while a process holds the run; in doubt once none does."""
    gone = evrun("show", "crash", "1", cwd=tmp_path).out
    assert "== calls in doubt\n  s1.c2" in gone
    assert gone.endswith("== open\n  this is all so far; the attempt goes on from here\n")
    with writer(crash):
        assert "== calls under way\n  s1.c2" in evrun("show", "crash", "1", cwd=tmp_path).out


def test_a_superseded_attempt_can_be_read_with_its_tool_calls(tools, tmp_path):
    """Arguments and results by their fields; what never ended says how far it is; money by attempt."""
    said = evrun("show", "tools", "0", "--attempt", "1", cwd=tmp_path)
    assert "attempt   1 (others: 2 open, 0.00185 USD)" in said.out
    assert "state     superseded: its directory is gone" in said.out
    assert "cost      0.001 USD in 1 calls" in said.out
    assert "  reasoning:\n    First the list.\n    Then the sum.\n  Looking." in said.out
    assert "  calls terminal (id0):\n    command:\n      ls -l\n      wc\n    timeout_s: 5\n" in said.out
    assert "  calls terminal (id1):\n    {broken\n" in said.out
    assert "== tool terminal (id0): succeeded after 12 ms\n  output:\n    a b\n" in said.out
    assert "== tool terminal (id1): running\n" in said.out
    assert "== tool nope (id2): not begun\n" in said.out
    assert "somebody else" not in said.out


def test_the_newest_attempt_is_shown_without_being_asked_for(tools, tmp_path):
    """And nothing of the attempt before it but a summary."""
    told = evrun("show", "tools", "0", "--json", cwd=tmp_path).json
    assert [one["outcome"] for one in told["attempts"]] == ["superseded", "open"]
    assert (told["attempt"]["attempt"], told["attempt"]["toolsets"]) == (2, ["terminal"])
    assert [message["content"] for message in told["messages"]] == ["What is 1 + 1?", "two"]


def test_what_a_model_or_a_tool_writes_cannot_command_the_terminal(tools, tmp_path):
    """Escape sequences, bells, C1 controls and turned text are shown, not obeyed; on a terminal too."""
    plain = evrun_process("show", "tools", "0", "--attempt", "1", cwd=tmp_path).out
    drawn = on_a_terminal("show", "tools", "0", "--attempt", "1", cwd=tmp_path)
    assert {c for c in plain if not c.isprintable()} == {"\n"}
    assert r"\x1b[2J" in plain
    assert r"\x1b[2J" in drawn
    for bad in ("\x1b[2J", "\x1b]", "\x07", "\x08", "\x9b", "\u202e"):
        assert bad not in drawn


def test_a_terminal_gets_colours_and_wrapped_lines(tmp_path):
    """Elsewhere lines stay as long as they are, so that `grep` finds what stands in them."""
    words = " ".join(["word"] * 60)
    row = PlannedRow(CONTENTS[0], 1, 0, 1, json.dumps({"prompt": words}).encode())
    tell(tmp_path / "data/r", [opening()[0], [PromptsPlanned([row], complete=True)]])
    assert f"\n  {words}\n" in evrun_process("show", "r", "0", cwd=tmp_path).out
    drawn = on_a_terminal("show", "r", "0", cwd=tmp_path)
    assert "\x1b[1;32m== user\x1b[0m" in drawn
    assert max(len(line) for line in drawn.splitlines() if "word" in line) <= 100


def test_characters_that_stdout_does_not_have_are_escaped(tmp_path):
    """A locale of another age shows less, and the command does not fail."""
    row = PlannedRow(CONTENTS[0], 1, 0, 1, '{"prompt": "na\u00efve \u2192 \U0001f600"}'.encode())
    tell(tmp_path / "data/r", [opening()[0], [PromptsPlanned([row], complete=True)]])
    said = evrun_process("show", "r", "0", cwd=tmp_path, environment={"PYTHONIOENCODING": "ascii"})
    assert (said.code, said.err) == (0, "")
    assert "\n  na\\xefve \\u2192 \\U0001f600\n" in said.out


def on_a_terminal(*arguments, cwd):
    """What a command prints on a terminal of 100 columns."""
    ours, theirs = pty.openpty()
    environment = ENVIRONMENT | {"TERM": "xterm-256color", "NO_COLOR": ""}
    process = subprocess.Popen([*EVRUN, *arguments], cwd=cwd, env=environment, stdin=theirs, stdout=theirs)
    os.close(theirs)
    printed = b""
    while True:
        try:
            more = os.read(ours, 1 << 16)
        except OSError:  # Linux says so when the last writer is gone
            more = b""
        if not more:
            break
        printed += more
    os.close(ours)
    assert process.wait(30) == 0
    return printed.decode()


def test_a_correction_by_the_invoice_is_in_the_cost(done, tmp_path):
    """Money that a person settled later belongs to the attempt that sent the call."""
    with writer(done) as log:
        log.append([encode_event(SpendCorrected("s1.c3", 7_000_000, "invoice"))])
    told = evrun("show", "done", "2", "--json", cwd=tmp_path).json
    assert (told["attempt"]["settled_usd"], told["attempt"]["in_doubt"]) == ("0.007", [])


def test_calls_of_others_are_never_taken_for_its_own(tmp_path):
    """Names of calls begin alike, corrections are of anybody's call: neither moves this prompt's money."""
    told = [*opening(), asked(0, "s1.c1"), asked(1, "s1.c12"), answered("s1.c12", "of another")]
    tell(
        tmp_path / "data/r",
        [*told, [SpendInDoubt("s1.c13", "lost", 1, 1)], [SpendCorrected("s1.c13", 5, "")]],
    )
    shown = evrun("show", "r", "0", "--json", cwd=tmp_path).json
    assert (shown["attempt"]["settled_usd"], shown["attempt"]["settled_calls"]) == ("0.00", 0)
    assert [call["call"] for call in shown["attempt"]["in_doubt"]] == ["s1.c1"]
    assert [message["role"] for message in shown["messages"]] == ["user"]


def test_a_score_is_shown_with_what_the_judge_said(tmp_path):
    """The judge's answer is no part of the conversation, its cost is part of the attempt's."""
    judging = BudgetReserved(
        "s1.c2", UNITS[0], 1, "judge", "some/model", "h", bytes(32), 2_000_000, 40, 100, "bytes"
    )
    judged = TrajectoryJudged(UNITS[0], 1, 0.5, "Too short.", bytes(16), "s1.c2")
    kept = TrajectoryCompleted(UNITS[0], 1, True, False, "stop", COUNTS)  # noqa: FBT003
    commits = [
        asked(0, "s1.c1"),
        answered("s1.c1", "2"),
        [judging],
        answered("s1.c2", "0.5, I say"),
        [judged, kept],
    ]
    tell(tmp_path / "data/r", [*opening(), *commits])
    said = evrun("show", "r", "0", cwd=tmp_path).out
    assert "\nscore     0.5\n" in said
    assert "\ncost      0.0037 USD in 2 calls\n" in said
    assert "\n== judge, answer 1 (stop, 250 ms)\n  reasoning:\n    Let me add.\n  0.5, I say\n" in said
    assert "\n== feedback\n  Too short.\n" in said
    assert "  0.5 on average of 1, from 0.5 to 0.5\n" in evrun("stats", "r", cwd=tmp_path).out


def test_an_imported_trajectory_is_shown_as_it_was(tmp_path):
    """Its turns, and the file and line that it is from."""
    row = {"conversations": [{"from": "human", "value": "old?"}, {"from": "gpt", "value": "yes"}]}
    imported = TrajectoryImported(
        UNITS[0], 1, "kept", None, COUNTS, json.dumps(row).encode(), "batch_0.jsonl", 3
    )
    tell(tmp_path / "data/r", [*opening(), [imported]])
    said = evrun("show", "r", "0", cwd=tmp_path).out
    assert "\nimported  batch_0.jsonl, line 3\n" in said
    assert said.endswith("\n== user\n  old?\n\n== assistant\n  yes\n")


def test_a_failed_prompt_that_was_tried_again_keeps_how_it_failed(tmp_path):
    """The first attempt's own end stays with it, and the second one stands for the prompt."""
    again = TrajectoryCompleted(UNITS[2], 2, True, False, "stop", COUNTS)  # noqa: FBT003
    tell(tmp_path / "data/r", [*finished()[:-2], started(2, 2, "s1.c9"), answered("s1.c9", "4"), [again]])
    told = evrun("show", "r", "2", "--json", cwd=tmp_path).json
    assert [(one["outcome"], one["reason"]) for one in told["attempts"]] == [
        ("failed", "timeout"),
        ("kept", None),
    ]
    first = evrun("show", "r", "2", "--attempt", "1", "--json", cwd=tmp_path).json["attempt"]
    assert (first["error"]["class"], first["settled_usd"]) == ("timeout", "0.00")


def test_system_prompt_and_row_fields_are_shown(tmp_path):
    """What was in force when the attempt began, and what the row carries."""
    from evrun.batch.settings import settings_record

    told = opening()
    settings = settings_record(SETTINGS) | {"system_prompt": "Be brief."}
    start = told[0][0]
    told[0][0] = type(start)("batch", "told", settings, {}, {}, [])
    row = PlannedRow(CONTENTS[0], 1, 0, 1, b'{"prompt": "x", "level": [1, 2], "cwd": "/tmp"}')
    tell(tmp_path / "data/r", [told[0], [PromptsPlanned([row], complete=True)], *crashed()[3:6]])
    out = evrun("show", "r", "0", cwd=tmp_path).out
    assert "\n  level   [1, 2]\n" in out
    assert "\n== system\n  Be brief.\n\n== user\n  x\n" in out
