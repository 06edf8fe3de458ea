"""Rows of the views: every field in its place, one type each, whatever the row and the answers hold."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.events import (
    BudgetReserved,
    BudgetSpent,
    ModelAnswered,
    PromptFailed,
    PromptStarted,
    SpendInDoubt,
    ToolFinished,
    TrajectoryCompleted,
    TrajectoryDiscarded,
    TrajectoryJudged,
    Usage,
)
from projections.conversation import Attempt
from projections.counts import count_attempt
from projections.render_rows import Frame, Place, discarded_row, failed_row, kept_row
from projections.sharegpt_parse import parse_conversation
from projections.times import rfc3339

GOLDEN = Path(__file__).parent.parent / "golden" / "rows_v1.jsonl"
START = 1_934_874_487_000_123_000
TOOLSETS = {
    "terminal": [{"name": "terminal", "description": "Run.", "parameters": {"type": "object"}}],
    "file": [{"name": "read_file", "description": "Read.", "parameters": {"type": "object"}}],
}
TYPES = {
    "prompt_index": int, "conversations": list, "metadata": dict, "completed": bool, "partial": bool,
    "api_calls": int, "toolsets_used": list, "tool_stats": dict, "tool_error_counts": dict, "prompt_id": str,
    "sample": int, "attempt": int, "usage": dict, "cost_usd": str | None, "duration_s": float | None,
    "finish_reason": str | None, "score": float | None, "escaped": bool,
    "feedback": str | None, "settings": str | None, "unknown_tool_calls": int, "reason": str, "error": dict,
}  # fmt: skip
FRAME = Frame({"model": "example/model-1"}, TOOLSETS)


def a_place(row=b'{"prompt": "How long?"}', seconds=2.5):
    """Where the unit stands."""
    return Place("prompt:00ff#2.3", 6, 3, 3, row, START + int(seconds * 1e9))


def started(toolsets=("terminal",)):
    """An attempt with nothing in it."""
    return Attempt.start(PromptStarted("prompt:00ff#2.3", 1, list(toolsets), b"s"), START, 1)


def answer(attempt, call, message, usage=(3, 2), cost=1_250_000):
    """Fold one answered and settled call."""
    choice = {"message": message, "finish_reason": "stop"}
    attempt.reserved(BudgetReserved(call, attempt.unit, 1, "rollout", "m", "e", b"", 9, 9, 9, "b"))
    attempt.answered(ModelAnswered(call, json.dumps({"choices": [choice]}).encode(), 1, None))
    attempt.spent(BudgetSpent(call, Usage(usage[0], None, usage[1], None), cost, "p"))


def worked():
    """An attempt with one tool call that failed and a final answer."""
    attempt = started()
    call = {"id": "x", "function": {"name": "terminal", "arguments": '{"command":"wc"}'}}
    answer(attempt, "1", {"content": "", "reasoning": "hm", "tool_calls": [call]})
    attempt.tool_finished(
        ToolFinished(attempt.unit, 1, 1, 0, b'{"error":"no"}', success=False, duration_ms=1)
    )
    answer(attempt, "2", {"content": "41 <think>"})
    return attempt


def kept(attempt, *, completed=True):
    """The boundary event."""
    counts = count_attempt(attempt)
    return TrajectoryCompleted(attempt.unit, 1, completed, not completed, "stop", counts)


def discarded(attempt, reason):
    """The other boundary event."""
    before = kept(attempt)
    return TrajectoryDiscarded(
        attempt.unit, 1, before.completed, before.partial, before.finish_reason, before.counts, reason
    )


def test_golden_rows():
    """The lines of each kind of view, letter by letter, as released programs wrote them."""
    attempt = worked()
    place = a_place(b'{"prompt": "How long?", "id": 7}')
    failure = PromptFailed(attempt.unit, 1, "timeout", "no answer in 120 s", None, retryable=True)
    lines = [
        kept_row(FRAME, place, attempt, kept(attempt)),
        discarded_row(FRAME, place, attempt, kept(attempt), "no_reasoning"),
        failed_row(FRAME, place, attempt, failure),
    ]
    assert b"".join(lines) == GOLDEN.read_bytes()


def test_fields_stand_in_one_order_with_one_type():
    """Kept, discarded and failed rows have the same shape, then a reason or an error."""
    attempt = worked()
    ending = kept(attempt)
    failure = PromptFailed(attempt.unit, 1, "quota", "no \ud7ff more", 402, retryable=True)
    rows = [
        (kept_row(FRAME, a_place(), attempt, ending), []),
        (kept_row(FRAME, a_place(), started([]), kept(started([]), completed=False)), []),
        (discarded_row(FRAME, a_place(), attempt, ending, "no_reasoning"), ["reason"]),
        (failed_row(FRAME, a_place(), attempt, failure), ["error"]),
        (failed_row(FRAME, a_place(b"not json"), None, failure), ["error"]),
    ]
    for line, extra in rows:
        row = json.loads(line)
        assert list(row) == [*list(TYPES)[:21], *extra]
        assert [name for name, value in row.items() if not isinstance(value, TYPES[name])] == []


def test_failed_row_shows_what_there_was():
    """The conversation so far and the counts, with the error whole."""
    attempt = worked()
    failure = PromptFailed(attempt.unit, 1, "timeout", "gave up", None, retryable=True)
    row = json.loads(failed_row(FRAME, a_place(), attempt, failure))
    assert row["error"] == {"class": "timeout", "message": "gave up", "status": None, "retryable": True}
    assert [turn["from"] for turn in row["conversations"]] == ["system", "human", "gpt", "tool", "gpt"]
    assert (row["completed"], row["api_calls"], row["tool_error_counts"]["terminal"]) == (False, 2, 1)


def test_failed_row_without_an_attempt_shows_the_prompt():
    """A row that could not be asked is in the file all the same."""
    failure = PromptFailed("prompt:00ff#2.3", 1, "template", "no field", None, retryable=False)
    frame = Frame({"model": "m", "template": "{missing}"}, TOOLSETS)
    row = json.loads(failed_row(frame, a_place(), None, failure))
    assert row["conversations"][1:] == [{"from": "human", "value": "How long?"}]
    assert (row["attempt"], row["cost_usd"], row["duration_s"]) == (0, None, None)


def test_discarded_row_takes_the_events_of_either_kind():
    """A changed rule sets aside what was kept, so the reason is given apart."""
    attempt = worked()
    ending = discarded(attempt, "old")
    assert json.loads(discarded_row(FRAME, a_place(), attempt, ending, "new"))["reason"] == "new"
    assert "reason" not in json.loads(kept_row(FRAME, a_place(), attempt, ending))


def test_tools_that_were_not_offered_are_counted_apart():
    """A made-up name gives no row a field that others lack; it is in the conversation."""
    attempt = started()
    call = {"id": "x", "function": {"name": "aaa", "arguments": "{}"}}
    answer(attempt, "1", {"content": "", "tool_calls": [call, {**call, "id": "y"}]})
    row = json.loads(kept_row(FRAME, a_place(), attempt, kept(attempt)))
    assert list(row["tool_stats"]) == list(row["tool_error_counts"]) == ["read_file", "terminal"]
    assert row["unknown_tool_calls"] == 2
    assert '"name": "aaa"' in row["conversations"][2]["value"]
    calls = [{**call, "function": {**call["function"], "name": name}} for name in ("read_file", "terminal")]
    drawn = started(["terminal"])
    answer(drawn, "1", {"content": "", "tool_calls": calls})
    row = json.loads(kept_row(FRAME, a_place(), drawn, kept(drawn)))
    assert (row["unknown_tool_calls"], row["tool_stats"]["read_file"]["count"]) == (1, 1)


def test_a_row_says_what_made_it_and_what_the_judge_said():
    """The digest of the settings in force, the model, the score and the feedback."""
    attempt = started()
    attempt.judged(TrajectoryJudged(attempt.unit, 1, 0.5, "so so", b"judge", None))
    row = json.loads(kept_row(FRAME, a_place(), attempt, kept(attempt)))
    assert (row["score"], row["feedback"], row["settings"]) == (0.5, "so so", b"s".hex())
    assert row["metadata"]["model"] == "example/model-1"


def test_system_turn_holds_the_tools_that_were_drawn():
    """Not those of the whole run; and the saved system prompt, not the ephemeral one."""
    frame = Frame({"model": "m", "system_prompt": "Be kind.", "ephemeral_system_prompt": "SECRET"}, TOOLSETS)
    for toolsets in ([], ["file"], ["file", "terminal", "unknown"], ["file"]):
        line = kept_row(frame, a_place(), started(toolsets), kept(started(toolsets)))
        value = json.loads(line)["conversations"][0]["value"]
        names = [
            tool["name"] for tool in json.loads(value.partition("<tools>\n")[2].partition("\n</tools>")[0])
        ]
        assert names == [TOOLSETS[name][0]["name"] for name in toolsets if name in TOOLSETS]
        assert value.endswith("Be kind.")
        assert b"SECRET" not in line


def test_rows_own_system_message_is_in_its_row_only():
    """A cached system turn of one row is never another's."""
    own = b'{"messages": [{"role": "system", "content": "MINE"}, {"role": "user", "content": "q"}]}'
    with_own = kept_row(FRAME, a_place(own), started(), kept(started()))
    without = kept_row(FRAME, a_place(), started(), kept(started()))
    assert b"MINE" in with_own
    assert b"MINE" not in without
    assert b'"messages"' not in with_own


METADATA = [
    ({"id": "a", "cwd": "/x"}, {"id": "a", "cwd": "/x"}),
    ({"metadata": {"source": "s", "n": [1]}}, {"source": "s", "n": [1]}),
    ({"metadata": "text"}, {"metadata": "text"}),
    ({"metadata": None}, {}),
    ({"model": "theirs", "batch_num": 9}, {"row_model": "theirs", "row_batch_num": 9}),
    ({"metadata": {"timestamp": "then"}}, {"row_timestamp": "then"}),
    ({"id": 1, "metadata": {"id": 2}}, {"id": 1, "row_id": 2}),
    ({"model": 1, "row_model": 2}, {"row_model": 1, "row_row_model": 2}),
    ({"messages": [], "conversations": []}, {}),
    ({"odd": "\u2028"}, {"odd": "\u2028"}),
]


@pytest.mark.parametrize(("fields", "shown"), METADATA, ids=range(len(METADATA)))
def test_rows_own_fields_are_in_the_metadata(fields, shown):
    """Ours are never overwritten, and theirs are never lost."""
    row = json.dumps({"prompt": "q"} | fields).encode()
    metadata = json.loads(kept_row(FRAME, a_place(row), started(), kept(started())))["metadata"]
    assert list(metadata)[:3] == ["batch_num", "timestamp", "model"]
    assert {k: v for k, v in metadata.items() if k not in {"batch_num", "timestamp", "model"}} == shown
    assert (metadata["batch_num"], metadata["model"]) == (3, "example/model-1")


def test_cost_is_null_where_it_is_not_known():
    """An unpriced call, or nothing but doubts; what is settled shows beside a doubt."""
    unpriced, doubtful, both, free = worked(), started(), worked(), started()
    answer(unpriced, "3", {"content": "a"}, cost=None)
    for attempt in (doubtful, both):
        attempt.went_in_doubt(SpendInDoubt("9", "lost", 5, 5))
    rows = [
        json.loads(kept_row(FRAME, a_place(), attempt, kept(attempt)))
        for attempt in (unpriced, doubtful, both, free)
    ]
    assert [row["cost_usd"] for row in rows] == [None, None, "0.0025", "0.00"]


@pytest.mark.parametrize(
    ("time_ns", "text"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (1_999, "1970-01-01T00:00:00.000001Z"),
        (START, "2031-04-25T09:08:07.000123Z"),
    ],
)
def test_times_are_utc_with_microseconds(time_ns, text):
    """Cut, never rounded up; no floating point."""
    assert rfc3339(time_ns) == text


nasty = st.text(st.characters(), max_size=12) | st.sampled_from(
    ["\u2028", "</think>", "<tool_call>", "\x00\r\n"]
)


@given(nasty.filter(str.strip), nasty, nasty, nasty)
def test_any_text_makes_a_row_that_parses_back(prompt, text, reasoning, result):
    """One line of clean UTF-8, and the conversation is in it exactly."""
    attempt = started()
    call = {"id": "x", "function": {"name": "terminal", "arguments": result or "{}"}}
    answer(attempt, "1", {"content": text, "reasoning": reasoning, "tool_calls": [call]})
    content = result.encode("utf-8", "surrogatepass")
    attempt.tool_finished(ToolFinished(attempt.unit, 1, 1, 0, content, success=True, duration_ms=1))
    line = kept_row(FRAME, a_place(json.dumps({"prompt": prompt}).encode()), attempt, kept(attempt))
    assert line.count(b"\n") == 1
    assert "\u2028" not in line.decode()
    user, assistant, tool = parse_conversation(json.loads(line)["conversations"])
    assert user.content == _clean(prompt)
    assert tool.content == _clean(result)
    said = attempt.answers()[0]
    assert (assistant.content, assistant.reasoning) == (said.text, said.reasoning)
    assert assistant.tool_calls == said.tool_calls


def _clean(text):
    """The text with each lone surrogate replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def test_same_events_give_the_same_bytes():
    """A replay makes the line again."""
    lines = {kept_row(Frame({"model": "m"}, TOOLSETS), a_place(), worked(), kept(worked())) for _ in range(3)}
    assert len(lines) == 1
