"""Cases of users: resume, identity, outcomes. Each test is the whole kind, not the one input."""

# docs/cases.md says which case is tested where.

import signal
from collections import Counter
from pathlib import Path

from eventlog.events import SettingsChanged
from tests.e2e.case import Case, hang
from tests.endpoint.client import running_endpoint
from tests.runs import evrun, finish, start, views_of, wait_until

TEN = [f"prompt {number}" for number in range(10)]


def test_discarded_prompt_is_never_asked_again_and_its_views_are_there(tmp_path: Path) -> None:
    """No reasoning: one call, one discard, kept with its reason; a resume asks nothing."""
    with running_endpoint(reasoning="") as endpoint:
        case = Case(tmp_path, endpoint)
        case.write("p")
        assert case.first().json["counts"]["discarded"] == 1
        for name in ("discarded.jsonl", "statistics.json"):
            (case.run_directory / name).unlink()
        resumed = case.resume()
        assert (resumed.code, resumed.json["counts"]["discarded"]) == (0, 1)
        assert case.asked() == ["p"]
    assert case.rows("discarded.jsonl")[0]["reason"] == "no_reasoning"
    assert case.statistics()["filtered_by_reason"] == {"no_reasoning": 1}
    assert case.rows() == []


def test_changed_rule_rejudges_what_is_recorded_without_a_call(tmp_path: Path) -> None:
    """--keep-all brings the set-aside rows back, --require-reasoning sets them aside again."""
    with running_endpoint(reasoning="") as endpoint:
        case = Case(tmp_path, endpoint)
        case.write(*TEN)
        case.first()
        kept = case.resume("--keep-all")
        assert (kept.json["counts"]["kept"], len(case.rows())) == (10, 10)
        aside = case.resume("--require-reasoning")
        assert (aside.json["counts"]["discarded"], len(case.rows())) == (10, 0)
        assert len(case.asked()) == 10
    assert evrun("replay", "r", "--check", cwd=tmp_path).code == 0


def test_equal_rows_are_each_run_once(tmp_path: Path) -> None:
    """Three equal rows, killed while the second is asked: two more are run, three rows come out."""
    with running_endpoint(rules=[{**hang(), "skip": 1}]) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", "--concurrency", 1)
        case.write("roll a die", "roll a die", "roll a die")
        case.killed_at(1)
        assert case.resume().code == 0
        assert endpoint.totals()["answered"] == 3
    assert len({row["prompt_id"] for row in case.rows()}) == 3


def test_new_row_in_front_is_run_and_nothing_else_is_repeated(tmp_path: Path) -> None:
    """Rows are known by content: p and q are done, n comes in front, n and r run."""
    with running_endpoint(rules=[hang(prompt="r")]) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", "--concurrency", 1)
        case.write("p", "q", "r")
        case.killed_at(1)
        case.write("n", "p", "q", "r")
        resumed = case.resume(case.dataset)
        assert resumed.code == 0, resumed
        assert "3 rows known, 1 new, 0 gone" in resumed.stderr
        assert Counter(case.asked()) == {"p": 1, "q": 1, "r": 2, "n": 1}
    assert {row["prompt_index"] for row in case.rows()} == {0, 1, 2, 3}


def test_finished_batch_file_stays_as_it_is_and_new_batches_go_on_after_the_last(tmp_path: Path) -> None:
    """Batches of two, five rows, killed in the second; three more rows on the resume."""
    with running_endpoint(rules=[hang(prompt="c")]) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", "--concurrency", 1, "--batch-size", 2)
        case.write(*"abcde")
        case.killed_at(1)
        # The views of a killed run may be behind its log; `replay` brings them up without a call.
        assert evrun("replay", "r", cwd=tmp_path).code == 0
        finished = (case.run_directory / "batch_1.jsonl").read_bytes()
        case.write(*"xabcdeyz")
        assert case.resume(case.dataset).code == 0
    assert (case.run_directory / "batch_1.jsonl").read_bytes() == finished
    batches = Counter(row["metadata"]["batch_num"] for row in case.rows())
    assert batches == {1: 2, 2: 2, 3: 1, 4: 2, 5: 1}


def test_damaged_views_are_put_right_from_the_log(tmp_path: Path) -> None:
    """Half a row, a cut letter, a missing newline, junk: the next rows stand on lines of their own."""
    with running_endpoint(rules=[hang(prompt="b")]) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", "--concurrency", 1)
        case.write("a", "b", "c")
        case.killed_at(1)
        assert evrun("replay", "r", cwd=tmp_path).code == 0
        batch = case.run_directory / "batch_1.jsonl"
        first = batch.read_bytes()
        batch.write_bytes(first + b'{"prompt_index": 7, "conv')
        assert case.resume().code == 0
        whole = batch.read_bytes()
        for damaged in (whole[:-1], whole + '{"x": "é'.encode()[:-1], b"junk\n" + whole, whole[:-9], b""):
            batch.write_bytes(damaged)
            assert case.resume().code == 0
            assert batch.read_bytes() == whole
        assert case.asked() == ["a", "b", "b", "c"]
    assert whole.startswith(first)
    assert [row["prompt_index"] for row in case.rows("batch_1.jsonl")] == [0, 1, 2]


def test_deliverable_is_made_when_nothing_is_left_to_do(tmp_path: Path) -> None:
    """Killed with all that is wanted already answered: a resume asks nothing and makes every view."""
    with running_endpoint(rules=[hang(prompt="never")]) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", "--concurrency", 1)
        case.write("a", "b", "never")
        case.killed_at(1)
        for path in case.run_directory.glob("*.json*"):
            path.unlink()
        case.write("a", "b")
        resumed = case.resume(case.dataset)
        assert resumed.code == 0, resumed
        assert case.asked() == ["a", "b", "never"]
    assert len(case.rows()) == 2
    assert case.statistics()["kept"] == 2
    assert (case.run_directory / "checkpoint.json").exists()


def test_statistics_cover_the_whole_run_however_many_sessions_it_took(tmp_path: Path) -> None:
    """Killed at five of ten: totals of all ten, begun with the first session."""
    with running_endpoint(rules=[hang(prompt=TEN[5])]) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", "--concurrency", 1)
        case.write(*TEN)
        case.killed_at(1)
        assert evrun("replay", "r", cwd=tmp_path).code == 0
        begun = case.statistics()["started_at"]
        assert case.resume().code == 0
        answered = [request for request in endpoint.requests() if request["outcome"] == "answered"]
    statistics = case.statistics()
    assert (statistics["total_prompts"], statistics["kept"], statistics["sessions"]) == (10, 10, 2)
    assert statistics["started_at"] == begun
    assert statistics["reasoning_statistics"]["total_assistant_turns"] == 10
    assert statistics["usage"]["output_tokens"] == sum(request["output_tokens"] for request in answered)


def test_another_concurrency_makes_no_difference(tmp_path: Path) -> None:
    """Killed with eight in flight, resumed with three: those eight again, nothing answered twice."""
    rules = [{"match": {}, "skip": 2, "times": 8, "then": {"fault": "hang"}}]
    with running_endpoint(rules=rules) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", "--concurrency", 8)
        case.write(*TEN, "11", "12")
        case.killed_at(8)
        resumed = case.resume("--concurrency", 3)
        assert resumed.code == 0, resumed
        assert "concurrency 8 -> 3" in resumed.stderr
        totals = endpoint.totals()
        assert (totals["answered"], totals["faults"]) == (12, 8)
        assert endpoint.requests()[-1]["n"] == 20
    assert {row["attempt"] for row in case.rows()} == {1}


def test_changed_model_is_shown_recorded_and_named_in_each_row(tmp_path: Path) -> None:
    """Rows before and after say which model made them; an attempt in the middle begins again."""
    with running_endpoint(rules=[hang(prompt="b")]) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", "--concurrency", 1)
        case.write("a", "b", "c")
        case.killed_at(1)
        resumed = case.resume("--model", "other")
        assert resumed.code == 0, resumed
        assert "model 'm' -> 'other'" in resumed.stderr
    assert [row["metadata"]["model"] for row in case.rows()] == ["m", "other", "other"]
    assert [row["attempt"] for row in case.rows()] == [1, 2, 1]
    assert case.events(SettingsChanged)[0].changes == {"model": ("m", "other")}
    assert evrun("audit", "r", "--json", cwd=tmp_path).json["calls"]["in_doubt"] == 1


def test_tool_that_never_returns_fails_its_row_and_no_other(tmp_path: Path) -> None:
    """A deadline for each prompt; the row has its class, the rest is kept, exit 3."""
    forever = {"tool_calls": [{"name": "terminal", "arguments": {"command": "sleep 611", "timeout_s": 600}}]}
    rules = [{"match": {"prompt": "stuck", "turn": 1}, "then": forever}]
    with running_endpoint(rules=rules) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "terminal")
        case.write("stuck", "fine")
        ended = case.first("--prompt-timeout", 1)
    assert ended.code == 3, ended
    (row,) = case.rows("failed.jsonl")
    assert row["error"]["class"] == "prompt_timeout"
    assert "--prompt-timeout" in row["error"]["message"]
    assert ended.json["counts"]["kept"] == 1


def test_stopped_calls_are_no_failures_and_go_on(tmp_path: Path) -> None:
    """SIGTERM twice with eight calls in flight: none is failed, a resume sends those eight again."""
    rules = [{"match": {}, "times": 8, "then": {"fault": "hang"}}]
    with running_endpoint(rules=rules) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", "--concurrency", 8)
        case.write(*TEN)
        process = start(*case.command(), cwd=tmp_path)
        wait_until(lambda: endpoint.totals()["faults"] == 8, "calls in flight")
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        wait_until(lambda: "stopping" in process.stderr.readline(), "the first signal to be noticed")
        process.send_signal(signal.SIGTERM)
        assert finish(process).code == 143
        counts = evrun("status", "r", "--json", cwd=tmp_path).json["counts"]
        assert (counts["failed"], counts["open"], counts["pending"]) == (0, 8, 2)
        assert case.resume().json["counts"]["kept"] == 10
        assert endpoint.totals()["requests"] == 18
    assert {row["attempt"] for row in case.rows()} == {1}


def test_dataset_may_be_gone_on_a_resume(tmp_path: Path) -> None:
    """The rows are in the log: --resume needs neither the file nor any other option."""
    with running_endpoint(rules=[hang(prompt="b")]) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", "--concurrency", 1)
        case.write("a", "b", "c")
        case.killed_at(1)
        case.dataset.unlink()
        assert case.resume().json["counts"]["kept"] == 3


def test_failed_prompt_is_tried_again_only_when_asked(tmp_path: Path) -> None:
    """A plain resume leaves it; --retry-failed gives it another attempt, and its first cost is kept."""
    rules = [{"match": {"prompt": "b"}, "times": 1, "then": {"finish_reason": "banana"}}]
    with running_endpoint(rules=rules) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", "--price", "m=1,1")
        case.write("a", "b")
        assert case.first().code == 3
        assert case.resume().code == 3
        assert len(case.asked()) == 2
        again = case.resume("--retry-failed")
        assert (again.code, again.json["counts"]["failed"]) == (0, 0)
        assert len(case.asked()) == 3
    assert [row["attempt"] for row in case.rows()] == [1, 2]
    assert not views_of(case.run_directory).get("failed.jsonl")
    audit = evrun("audit", "r", "--json", cwd=tmp_path)
    assert audit.code == 0, audit
    assert audit.json["calls"]["settled"] == 3
