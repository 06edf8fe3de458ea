"""Spans of a run: the log's events by the conventions, sent live or later, the same however often."""

import pytest

from eventlog.events import ModelAnswered, PromptStarted
from tests.e2e.case import Case, hang
from tests.endpoint.client import running_endpoint
from tests.otel.collector import attributes_of, running_collector
from tests.runs import evrun

TOOL_RULES = [
    {
        "match": {"contains": "tool", "turn": 1},
        "then": {"tool_calls": [{"name": "terminal", "arguments": {"command": "echo hi"}}]},
    },
    {"match": {"contains": "bad"}, "then": {"status": 400, "error": {"message": "no such thing"}}},
]


@pytest.fixture(name="collector")
def _collector():
    with running_collector() as collector:
        yield collector


def test_a_run_sends_its_spans_while_it_goes_on(collector, tmp_path):
    """Attempts are roots, calls and tools are below them, with the conventions' names, times from the log."""
    with running_endpoint(rules=TOOL_RULES) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "terminal", "--keep-all", "--price", "m=1,2")
        case.write("plain", "tool please", "bad one")
        assert case.first("--otel", collector.url, "--max-tokens", 50).code == 3
    assert set(collector.paths) == {"/v1/traces"}
    roots = {attributes_of(span)["evrun.outcome"]: span for span in collector.named("invoke_agent chat")}
    assert roots.keys() == {"kept", "failed"}
    assert len(collector.named("invoke_agent chat")) == 3
    chats = collector.named("chat m")
    assert len(chats) == 4
    told = attributes_of(chats[0])
    assert (told["gen_ai.operation.name"], told["gen_ai.request.model"]) == ("chat", "m")
    assert told["gen_ai.usage.input_tokens"] > 0
    assert told["evrun.cost_usd"].startswith("0.0000")
    (tool,) = collector.named("execute_tool terminal")
    parents = {span.span_id for span in collector.named("invoke_agent")}
    assert {tool.parent_span_id, *(span.parent_span_id for span in chats)} <= parents
    assert len({span.trace_id for span in collector.spans}) == 3
    assert all(span.start_time_unix_nano <= span.end_time_unix_nano for span in collector.spans)
    assert roots["failed"].status.message == "no such thing"
    bad = [span for span in chats if span.status.message]
    assert [attributes_of(span)["http.response.status_code"] for span in bad] == [400]


def test_a_collector_that_is_down_loses_nothing(collector, tmp_path):
    """The run says so once and goes on; `evrun otel` sends all of it later, and only once."""
    collector.down = True
    with running_endpoint() as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", "--keep-all")
        case.write("one", "two")
        ended = case.first("--otel", collector.url)
        assert ended.code == 0
        assert ended.stderr.count("`evrun otel` sends them later") == 1
    assert collector.spans == []
    assert evrun("otel", "r", cwd=tmp_path).code == 1
    collector.down = False
    said = evrun("otel", "r", "--json", cwd=tmp_path)
    assert (said.code, said.json["spans"]) == (0, 4)
    assert len(collector.spans) == 4
    assert evrun("otel", "r", "--json", cwd=tmp_path).json["spans"] == 0
    (tmp_path / "data/r/otel.json").unlink()
    assert evrun("otel", "r", "--json", cwd=tmp_path).json["spans"] == 4
    first, again = collector.spans[:4], collector.spans[4:]
    assert [span.span_id for span in first] == [span.span_id for span in again]


def test_a_call_that_was_out_at_a_kill_is_a_span_in_doubt(collector, tmp_path):
    """What nobody heard of again ends where the next session finds it, with an error."""
    with running_endpoint(rules=[hang(contains="slow")]) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", "--keep-all")
        case.write("slow one")
        case.killed_at(1, "--otel", collector.url)
        assert case.resume().code == 0
    doubted = [span for span in collector.named("chat m") if span.status.message]
    assert [attributes_of(span)["evrun.in_doubt"] for span in doubted] == [True]
    assert len(collector.named("chat m")) == 2
    assert len(case.events(ModelAnswered)) == len(case.events(PromptStarted)) == 1


WRONG = {
    "no address": ("collector:4318", "expected an address"),
    "a password": ("http://me:secret@127.0.0.1:4318", "OTEL_EXPORTER_OTLP_HEADERS"),
}


@pytest.mark.parametrize(("url", "told"), WRONG.values(), ids=WRONG)
def test_a_collector_that_is_no_address_is_refused(url, told, tmp_path):
    """Exit 2 before anything is made; a password is not repeated."""
    with running_endpoint() as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none")
        case.write("p")
        ended = case.first("--otel", url)
    assert ended.code == 2
    assert told in ended.stderr
    assert "secret" not in ended.stderr
    assert not case.run_directory.exists()


def test_no_collector_at_all_is_said(tmp_path):
    """A run that names none, and nothing in the environment."""
    with running_endpoint() as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none")
        case.write("p")
        case.first()
    ended = evrun("otel", "r", cwd=tmp_path)
    assert (ended.code, "no collector" in ended.stderr) == (2, True)
