"""Rows of another program as rows of ours: what they say comes out as it was, the rest is null."""

import json

import pytest

from eventlog.events import TrajectoryCompleted, TrajectoryImported
from projections import imported_counts, imported_prompt
from projections.conversation import Attempt
from projections.imported import imported_row
from projections.render_rows import NO_COUNTS, Frame, Place, RowShape, kept_row
from projections.unit_table import UnitTable
from projections.units import DISCARDED, FAILED, KEPT
from tests.hermes import row, tombstone

UNIT = "prompt:00112233445566778899aabbccddeeff#1.1"


def line(data, outcome=KEPT, reason=None, planned=b'{"prompt": "planned", "level": 3}', tools=()):
    """The line that comes of a row's bytes, in a run that has these tools."""
    frame = Frame({}, {}, RowShape({"level": "int"}, tools))
    event = TrajectoryImported(UNIT, 1, outcome, reason, NO_COUNTS, data, "batch_0.jsonl", 7)
    unit = UnitTable().add(bytes(16), 1, 1, index=4, batch=2, planned=1, position=0)
    unit.outcome, unit.reason = outcome, reason
    return imported_row(frame, Place(UNIT, 4, 2, 1, planned, 10**18), event, unit)


def test_values_come_out_to_the_letter():
    """Numbers and spacing as they were written, in the fields that both programs have."""
    data = json.dumps(row(0, "é")).replace('"api_calls": 2', '"api_calls": 2.50').encode()
    assert b'"api_calls":2.50,' in line(data.replace(b"\\u00e9", "é".encode()))
    found = json.loads(line(data))
    given = json.loads(data)
    for name in ("conversations", "completed", "partial", "api_calls", "toolsets_used", "tool_stats"):
        assert found[name] == given[name]
    assert (found["prompt_index"], found["metadata"]["batch_num"]) == (4, 2)
    assert found["prompt_id"] == "00112233445566778899aabbccddeeff#1"
    assert {found[name] for name in ("cost_usd", "duration_s", "finish_reason", "score", "settings")} == {
        None
    }


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b'"\\ud800"', "\ufffd"),
        (b'"\\ud83d\\ude00"', "\U0001f600"),
        (b"NaN", None),
        ('"\u2028"'.encode(), "\u2028"),
        (b'"\xed\xa0\x80"', "\ufffd"),
    ],
)
def test_what_no_view_can_hold_is_put_in_its_place(written, shown):
    """Half characters, numbers that are none, line separators: the line is one line of valid JSON."""
    data = json.dumps(row(0, "p")).encode().replace(b'"partial": false', b'"partial": ' + written)
    made = line(data)
    assert (made.count(b"\n"), "\u2028".encode() in made) == (1, False)
    assert json.loads(made.decode(), parse_constant=pytest.fail)["partial"] == shown


def test_the_metadata_has_what_all_rows_of_the_run_have():
    """Time and model are the row's, the batch is ours, further fields are the planned row's alone."""
    given = row(0, "p", session="s1", level=9)
    given["metadata"] |= {"env_type": "local", "batch_num": 77}
    assert json.loads(line(json.dumps(given).encode()))["metadata"] == {
        "batch_num": 2, "timestamp": "2031-05-04T09:08:07.000123", "model": "example/model-1", "level": 3,
    }  # fmt: skip


def test_a_row_has_the_tools_of_the_run_besides_its_own():
    """One schema: what the run has and the row does not know was not called; the row's numbers stay."""
    data = json.dumps(row(0, "p")).encode()
    found = json.loads(line(data, tools=("patch", "terminal")))
    assert found["tool_stats"] == row(0, "p")["tool_stats"] | {
        "patch": {"count": 0, "success": 0, "failure": 0}
    }
    assert found["tool_error_counts"] == row(0, "p")["tool_error_counts"] | {"patch": 0}


def test_an_imported_row_has_the_fields_of_every_other_row():
    """The same names in the same order as a row that evrun made."""
    frame = Frame({"model": "m"}, {}, RowShape({"level": "int"}, ()))
    ending = TrajectoryCompleted(UNIT, 1, True, False, "stop", NO_COUNTS)  # noqa: FBT003 (as the event has them)
    planned = b'{"prompt": "planned", "level": 3}'
    ours = json.loads(
        kept_row(frame, Place(UNIT, 4, 2, 1, planned, 10**18), Attempt(UNIT, 1, 0, 1, [], b""), ending)
    )
    theirs = json.loads(line(json.dumps(row(0, "p")).encode()))
    assert (list(theirs), list(theirs["metadata"])) == (list(ours), list(ours["metadata"]))
    assert list(theirs["usage"]) == list(ours["usage"])


def test_a_lost_conversation_shows_its_prompt_and_nothing_made_up():
    """A tombstone, a failure, a row that is not there: null where a number would be a guess."""
    aside = json.loads(line(json.dumps(tombstone(0, "p")).encode(), DISCARDED, "no_reasoning"))
    assert (aside["conversations"], aside["reason"]) == ([{"from": "human", "value": "p"}], "no_reasoning")
    assert {aside[name] for name in ("completed", "partial", "api_calls")} == {None}
    assert (aside["tool_stats"], aside["tool_error_counts"]) == (None, None)
    unknown = json.loads(line(b"", DISCARDED, "no_row_in_hermes"))
    assert unknown["conversations"] == [{"from": "human", "value": "planned"}]
    failed = json.loads(line(json.dumps(row(0, "p", failed=True)).encode(), FAILED, "hermes_failed"))
    assert failed["error"]["class"] == "hermes_failed"
    assert "batch_0.jsonl" in failed["error"]["message"]
    assert len(failed["conversations"]) == 5


def test_any_bytes_make_a_line():
    """A log may hold a row that is no JSON; its line still is."""
    for data in (b"", b"{", b"[]", b"\xff", b'{"metadata": 3, "tool_stats": []}', b'{"conversations": 7}'):
        assert json.loads(line(data))["prompt_index"] == 4


def test_a_row_counts_what_it_says():
    """Calls, turns with reasoning, tools that were called; nothing about tokens."""
    counts = imported_counts(row(0, "p"))
    assert (counts.api_calls, counts.turns_with_reasoning, counts.turns_without_reasoning) == (2, 1, 1)
    assert (counts.tools["terminal"], counts.tools["read_file"]) == ((1, 1, 0), (0, 0, 0))
    assert counts.reasoning_tokens is None
    strange = {
        "api_calls": -1,
        "tool_stats": {"x": {"count": "3"}, "y": 5},
        "conversations": [7, {"from": "gpt"}],
    }
    assert imported_counts(strange).tools == {"x": (0, 0, 0)}
    assert imported_counts({}) == NO_COUNTS


def test_the_prompt_is_the_first_human_turn():
    """Later ones are nudges; without turns the row may say it itself."""
    given = row(0, "first")
    given["conversations"].append({"from": "human", "value": "go on"})
    assert imported_prompt(given) == "first"
    assert imported_prompt(tombstone(0, "p")) == "p"
    assert imported_prompt({"conversations": [{"from": "gpt", "value": "x"}], "prompt": "p"}) is None
    assert imported_prompt({"prompt": 7}) is None
