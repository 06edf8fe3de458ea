"""Lines of OpenAI's batch files as a dataset: what cannot be sent is refused with its line, for nothing."""

import json

import pytest

from evrun.batch.dataset import BadLine, Row, Terms, read_dataset, terms_of
from evrun.batch.plan import scan
from evrun.batch.settings import Settings

BODY = {"model": "m", "messages": [{"role": "user", "content": "q"}]}
LINE = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": BODY}


def read(tmp_path, rows, terms=None):
    """What a dataset of these rows holds."""
    path = tmp_path / "d.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return list(read_dataset(path, terms or Terms()))


def line(name="a", **body):
    """A batch line; a field of its body that is null is not there."""
    fields = {key: value for key, value in (BODY | body).items() if value is not None}
    return {**LINE, "custom_id": name, "body": fields}


REFUSED = {
    "a name that is none": ({**LINE, "custom_id": 7}, "custom_id is not a name: found a number '7'"),
    "a blank name": ({**LINE, "custom_id": " "}, "custom_id is not a name: found a string"),
    "another method": ({**LINE, "method": "GET"}, "method is not POST: found a string '\"GET\"'"),
    "embeddings": (
        {**LINE, "url": "/v1/embeddings"},
        "url is not /v1/chat/completions: found a string '\"/v1/embeddings\"'",
    ),
    "a body that is none": ({**LINE, "body": "x"}, "body is not an object: found a string"),
    "a stream": (line(stream=True), "body.stream: an answer of a batch is whole"),
    "options of a stream": (line(stream_options={}), "body.stream_options: "),
    "no messages": (line(messages=None), "body.messages is not a list of messages: found null"),
    "messages of none": (line(messages=[]), "body.messages is not a list of messages: found an array"),
    "a bad message": (line(messages=[{"role": "boss"}]), "body: message 1: unknown role 'boss'"),
    "a tool turn of no call": (line(messages=[{"role": "tool"}]), "body: message 1: a tool turn without"),
    "a model that is none": (line(model=7), "body.model is not a name: found a number '7'"),
    "another price": (line(service_tier="flex"), "body.service_tier 'flex' has prices of its own"),
}


@pytest.mark.parametrize(("bad", "found"), REFUSED.values(), ids=REFUSED)
def test_a_line_that_cannot_be_sent_is_refused(tmp_path, bad, found):
    """It stands between two good ones, which are read."""
    first, refused, last = read(tmp_path, [line("x"), bad, line("y")])
    assert [first.value["custom_id"], last.value["custom_id"]] == ["x", "y"]
    assert isinstance(refused, BadLine)
    assert refused.line == 2
    assert found in refused.found


def test_a_name_that_is_used_again_is_refused_with_both_lines(tmp_path):
    """The first line counts; a bad line's name is free."""
    found = read(tmp_path, [line("a"), {**line("b"), "url": "x"}, line("b"), line("a")])
    assert [type(one) for one in found] == [Row, BadLine, Row, BadLine]
    assert found[-1] == (4, "custom_id 'a' is that of line 1 too")


def test_lines_name_one_model(tmp_path):
    """The first line's, where the run has none; a line need not name any."""
    found = read(tmp_path, [line("a"), line("b", model=None), line("c", model="n")])
    assert [type(one) for one in found] == [Row, Row, BadLine]
    assert found[-1].found == "body.model 'n': line 1 has 'm', and a run has one model"
    (bad,) = read(tmp_path, [line()], Terms(model="n"))
    assert bad.found == "body.model 'm': the run's model is 'n', and a run has one model"


def test_the_model_of_the_lines_is_found_by_a_scan(tmp_path):
    """Of the first line that names one; none where there are no batch lines."""
    assert scan(read(tmp_path, [line("a", model=None), line("b")]), None).model == "m"
    assert scan(read(tmp_path, [{"prompt": "p", "model": "x"}]), None).model is None


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"template": "Say: {prompt}"}, "which no --template can honour"),
        ({"api": "anthropic"}, "--api is anthropic"),
        ({"toolsets": ["terminal"]}, "the tools of its body alone, whatever --toolsets says"),
        ({"tools": ["mine.py"]}, "whatever --tools says"),
        ({"mcp_config": "mcp.json"}, "whatever --mcp-config says"),
        ({"tool_choice": "required"}, "whatever --tool-choice says"),
        ({"agent": "a.py:f"}, "nothing to --agent a.py:f"),
        ({"toolsets": []}, None),
        ({"extra_body": {"service_tier": "flex"}}, None),
    ],
)
def test_options_that_a_batch_line_cannot_follow_are_refused(tmp_path, options, found):
    """Rather than left out without a word."""
    terms = terms_of(Settings(dataset="d", model="m", **options))
    (one,) = read(tmp_path, [line()], terms)
    assert isinstance(one, Row) if found is None else found in one.found
    if options.get("extra_body"):
        (one,) = read(tmp_path, [line(service_tier="flex")], terms)
        assert isinstance(one, Row)


def test_batch_lines_and_prompts_may_stand_in_one_file(tmp_path):
    """Each row is what it is; a prompt makes a row no batch line whatever else it has."""
    rows = [line(), {"prompt": "p"}, {**LINE, "prompt": "p", "url": 3}]
    assert [type(one) for one in read(tmp_path, rows)] == [Row, Row, Row]
