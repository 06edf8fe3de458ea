"""OpenAI's files: a line for each batch line that was asked, live, rebuilt and compared alike."""

import json
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import structs

from eventlog.events import ModelAnswered, PromptFailed, PromptsPlanned, SessionOpened
from projections import open_views
from projections.render_openai import batch_line_id

from .histories import (
    LogMaker,
    answered,
    begun,
    discarded,
    failed,
    kept,
    name_of,
    planned,
    reserve,
    restored,
    spent,
    started,
)
from .views import Ticking, files, follow, rebuilt, why

OUTPUT, ERRORS = "openai_output.jsonl", "openai_errors.jsonl"


def line_of(index):
    """A batch line."""
    body = {"messages": [{"role": "user", "content": f"question {index}"}]}
    return json.dumps({"custom_id": f"n{index}", "url": "/v1/chat/completions", "body": body}).encode()


def opening(prompts=4, plain=()):
    """A run of batch lines; those in `plain` are prompts."""
    rows = [
        row if row.index in plain else structs.replace(row, row=line_of(row.index))
        for row in planned(prompts).rows
    ]
    return [[SessionOpened(1, 1, "host", "0"), started(), PromptsPlanned(rows, complete=True)]]


def ended(index, end=kept, attempt=1, answer=None):
    """The commits of one line from start to end."""
    unit, call = name_of(index), f"c{index}.{attempt}"
    said = answer or ModelAnswered(call, answered(call, f"answer {index}.{attempt}").body, 3, f"req-{call}")
    return [
        [begun(unit, attempt), reserve(call, unit, attempt)],
        [spent(call), said],
        [end(unit, attempt)],
    ]


def lines(views, name):
    """The lines of a file, by custom_id."""
    return {line["custom_id"]: line for line in map(json.loads, views.get(name, b"").splitlines())}


def test_an_answer_stands_in_the_output_whatever_a_rule_makes_of_it(tmp_path, maker):
    """Kept, discarded or restored: the body whole, the provider's request id, and a name of its own."""
    maker.write([*opening(), *ended(0), *ended(1, discarded), [restored(name_of(1))], *ended(2, discarded)])
    views = rebuilt(maker.reader(), tmp_path / "out")
    found = lines(views, OUTPUT)
    assert list(found) == ["n0", "n1", "n2"]
    assert found["n1"]["id"] == name_of(1)
    response = found["n1"]["response"]
    assert (response["status_code"], response["request_id"]) == (200, "req-c1.1")
    assert response["body"] == json.loads(answered("c1.1", "answer 1.1").body)
    assert ERRORS not in views


def test_an_error_says_status_class_and_message(tmp_path, maker):
    """Without a status there is no response; an answer that could not be used stands in it."""
    unit = name_of(1)
    refused = PromptFailed(unit, 1, "bad_request", "too odd", 400, retryable=False)
    maker.write([*opening(), [begun(name_of(0))], [failed(name_of(0))], [begun(unit)], [refused]])
    maker.write(ended(2, failed))
    found = lines(rebuilt(maker.reader(), tmp_path / "out"), ERRORS)
    assert found["n0"]["response"] is None
    assert found["n0"]["error"] == {"code": "timeout", "message": "it took too long"}
    assert found["n1"]["response"] == {"status_code": 400, "request_id": None, "body": None}
    assert found["n2"]["response"]["body"]["choices"][0]["message"]["content"] == "answer 2.1"


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b'{\n "choices": [\n {"message": {"content": "a\xe2\x80\xa8b"}, "finish_reason": "stop"}]\n}', None),
        (b"no JSON\n", "no JSON\n"),
        (b'{"n": NaN, "s": "\\ud800"}', {"n": None, "s": "\ufffd"}),
    ],
    ids=["pretty", "junk", "odd"],
)
def test_any_body_is_on_one_line(tmp_path, maker, body, shown):
    """Line ends in it, no JSON at all, what JSON does not have: the file stays one object a line."""
    maker.write([*opening(), *ended(0, answer=ModelAnswered("c0.1", body, 3, None))])
    data = rebuilt(maker.reader(), tmp_path / "out")[OUTPUT]
    assert data.count(b"\n") == 1
    assert "\u2028".encode() not in data
    assert json.loads(data)["response"]["body"] == (json.loads(body) if shown is None else shown)


def test_prompts_among_batch_lines_have_no_line(tmp_path, maker):
    """A run of prompts alone has no such file."""
    maker.write([*opening(plain=(1,)), *ended(0), *ended(1)])
    assert list(lines(rebuilt(maker.reader(), tmp_path / "out"), OUTPUT)) == ["n0"]
    assert batch_line_id(b'{"prompt": "\\"custom_id\\""}') is None
    assert batch_line_id(b'{"prompt": "custom_id", "body": {}}') is None
    assert batch_line_id(b'{"custom\\u005fid": "x", "url": "u", "body": {}}') == "x"


def test_a_line_that_is_tried_again_moves_from_the_errors_to_the_output(tmp_path, maker):
    """Live as well as rebuilt; a check calls what was right before behind, and never different."""
    run = tmp_path / "run"
    maker.write([*opening(), *ended(0, failed), *ended(1)])
    views = open_views(run, maker.reader())
    views.finish()
    assert list(lines(files(run), ERRORS)) == ["n0"]
    maker.write(ended(0, attempt=2))
    assert why(maker.reader(), run)[ERRORS] == "behind"
    follow(views, maker.reader())
    views.finish()
    assert ERRORS not in files(run)
    assert list(lines(files(run), OUTPUT)) == ["n1", "n0"]
    assert why(maker.reader(), run) == {}


STEPS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([kept, discarded, failed])), max_size=12)


@given(STEPS, st.integers(0, 1 << 32))
@settings(max_examples=25, deadline=None)
@example([(0, failed), (0, failed)], 2)
def test_live_files_are_the_rebuilt_ones_whatever_ends_how_often(tmp_path_factory, steps, seed):
    """Lines and prompts, tried again and again, views made now and then, one file damaged on the way."""
    place, chance, attempts = tmp_path_factory.mktemp("run"), Random(seed), dict.fromkeys(range(4), 0)
    done = set()
    with LogMaker(place / "log") as maker:
        maker.write(opening(plain=(3,)))
        views = open_views(place, maker.reader())
        for index, end in steps:
            if index in done:
                continue
            attempts[index] += 1
            maker.write(ended(index, end, attempts[index]))
            done |= {index} if end is kept else set()
            follow(views, maker.reader())
            if chance.random() < 0.5:
                views.refresh(Ticking())
        if chance.random() < 0.3 and (place / OUTPUT).exists():
            (place / OUTPUT).write_bytes(b"{}\n")
        views.finish()
        assert files(place) == rebuilt(maker.reader(), place / "again")
        assert why(maker.reader(), place) == {}
