"""The main job, from outside: run, kill -9, resume, replay, on real processes and a real endpoint."""

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

from tests.endpoint.client import running_endpoint
from tests.runs import evrun, gsm8k, kill, prompts_of, rows_of, start, views_of, wait_until


def test_killed_run_resumes_with_nothing_lost_and_only_calls_in_flight_repeated(
    tmp_path: Path,
) -> None:
    """60 prompts, 8 in flight, kill -9 after 20: --resume alone finishes, and every view is rebuilt."""
    dataset = gsm8k(tmp_path / "prompts.jsonl", 60)
    asked = [row["prompt"] for row in rows_of(dataset)]
    with running_endpoint(latency_ms=150) as endpoint:
        first = start(
            "run", dataset, "--run-name", "r", "--model", "test-model", "--base-url", endpoint.base_url,
            "--toolsets", "none", "--concurrency", 8, cwd=tmp_path,
        )  # fmt: skip
        wait_until(lambda: endpoint.totals()["answered"] >= 20, "20 answers")
        kill(first)
        wait_until(lambda: endpoint.totals()["in_flight"] == 0, "the endpoint to notice")
        before = endpoint.totals()["requests"]
        assert before < 60

        resumed = evrun("run", "--run-name", "r", "--resume", "--json", cwd=tmp_path)

        assert resumed.code == 0, resumed
        assert resumed.json["counts"] == {
            "total": 60, "kept": 60, "discarded": 0, "failed": 0, "open": 0, "pending": 0,
        }  # fmt: skip
        served = Counter(request["prompt"] for request in endpoint.requests())
    run = tmp_path / "data/r"
    assert sorted(prompts_of(run)) == sorted(asked)
    assert set(served) == set(asked)
    assert sum(served.values()) - 60 <= 8
    assert evrun("verify", "r", cwd=tmp_path).code == 0
    assert evrun("replay", "r", "--check", cwd=tmp_path).code == 0
    views = views_of(run)
    assert {
        "checkpoint.json",
        "statistics.json",
        "trajectories.jsonl",
        "batch_1.jsonl",
        "batch_6.jsonl",
    } <= set(views)
    for name in views:
        (run / name).unlink()
    assert evrun("replay", "r", cwd=tmp_path).code == 0
    assert views_of(run) == views


def test_second_process_on_a_run_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    """A run that a live process works on is refused with exit 6 and that process's pid."""
    dataset = gsm8k(tmp_path / "prompts.jsonl", 5)
    with running_endpoint(rules=[{"match": {}, "then": {"fault": "hang"}}]) as endpoint:
        holder = start(
            "run", dataset, "--run-name", "r", "--model", "m", "--base-url", endpoint.base_url, cwd=tmp_path
        )
        wait_until(lambda: endpoint.totals()["faults"] == 5, "the run to work")

        second = evrun("run", "--run-name", "r", "--resume", cwd=tmp_path)

        assert second.code == 6, second
        assert str(holder.pid) in second.stderr
        assert kill(holder).code == -9


def test_used_run_name_without_resume_is_refused_with_the_two_ways_on(tmp_path: Path) -> None:
    """A used name is exit 2, names --resume and another name, and sends nothing."""
    dataset = gsm8k(tmp_path / "prompts.jsonl", 2)
    with running_endpoint() as endpoint:
        command = ["run", dataset, "--run-name", "r", "--model", "m", "--base-url", endpoint.base_url]
        assert evrun(*command, cwd=tmp_path).code == 0
        asked = endpoint.totals()["requests"]

        again = evrun(*command, cwd=tmp_path)

        assert again.code == 2, again
        assert "--resume" in again.stderr
        assert "another --run-name" in again.stderr
        assert endpoint.totals()["requests"] == asked


def test_finished_run_resumed_asks_nothing_and_grows_by_a_few_events(tmp_path: Path) -> None:
    """Five resumes with nothing to do: no call, exit 0, views whole, two events each."""
    dataset = gsm8k(tmp_path / "prompts.jsonl", 12)
    with running_endpoint() as endpoint:
        evrun(
            "run", dataset, "--run-name", "r", "--model", "m", "--base-url", endpoint.base_url, cwd=tmp_path
        )
        asked = endpoint.totals()["requests"]
        sequences = []
        for _ in range(5):
            (tmp_path / "data/r/trajectories.jsonl").unlink()
            resumed = evrun("run", "--run-name", "r", "--resume", "--json", cwd=tmp_path)
            assert resumed.code == 0, resumed
            assert len(prompts_of(tmp_path / "data/r")) == 12
            sequences.append(resumed.json["sequence"])
        assert endpoint.totals()["requests"] == asked
    assert all(later - earlier == 2 for earlier, later in pairwise(sequences))


def test_bad_lines_are_all_listed_and_nothing_is_sent(tmp_path: Path) -> None:
    """Every kind of bad line is named with its number; exit 2; no call, no run directory."""
    lines = [
        b'{"prompt": "fine"}',
        b'{"prompt": 7}',
        b'{"prompt": null}',
        b"3",
        b'"x"',
        b'{"prompt": "  "}',
        b'{"question": "x"}',
        b'{"prompt": "cut',
        b'{"prompt": "\xff"}',
        b"",
        b'{"messages": [{"role": "system", "content": "no user turn"}]}',
    ]
    dataset = tmp_path / "bad.jsonl"
    dataset.write_bytes(b"\n".join(lines))
    with running_endpoint() as endpoint:
        refused = evrun(
            "run", dataset, "--run-name", "r", "--model", "m", "--base-url", endpoint.base_url, cwd=tmp_path
        )
        assert refused.code == 2, refused
        for number in (2, 3, 4, 5, 6, 7, 8, 9, 11):
            assert f"line {number}: " in refused.stderr
        assert "line 1: " not in refused.stderr
        assert "line 10: " not in refused.stderr
        assert endpoint.totals()["requests"] == 0
    assert not (tmp_path / "data").exists()


def test_skipped_bad_rows_are_recorded_and_the_rest_runs(tmp_path: Path) -> None:
    """--skip-bad-rows leaves bad lines out, on record, and runs the others."""
    dataset = tmp_path / "some.jsonl"
    dataset.write_text('{"prompt": "a"}\n{"prompt": 7}\n{"prompt": "b"}\n')
    with running_endpoint() as endpoint:
        ended = evrun(
            "run", dataset, "--run-name", "r", "--model", "m", "--base-url", endpoint.base_url,
            "--skip-bad-rows", cwd=tmp_path,
        )  # fmt: skip
    assert ended.code == 0, ended
    assert prompts_of(tmp_path / "data/r") == ["a", "b"]
    skipped = evrun("events", "r", "--type", "RowsSkipped", "--json", cwd=tmp_path).json
    assert skipped["data"]["lines"][0][0] == 2


def test_unreachable_endpoint_is_one_clear_line_and_nothing_is_marked_failed(tmp_path: Path) -> None:
    """Nobody listens: exit 1, one line that says where, no prompt failed, and a resume finishes the work."""
    dataset = gsm8k(tmp_path / "prompts.jsonl", 5)
    with running_endpoint() as endpoint:
        url = endpoint.base_url
    ended = evrun(
        "run", dataset, "--run-name", "r", "--model", "m", "--base-url", url, "--json", cwd=tmp_path
    )
    assert ended.code == 1, ended
    assert url in ended.json["reason"]
    assert ended.json["counts"]["failed"] == 0
    with running_endpoint() as endpoint:
        resumed = evrun(
            "run", "--run-name", "r", "--resume", "--base-url", endpoint.base_url, "--json", cwd=tmp_path
        )
    assert resumed.code == 0, resumed
    assert resumed.json["counts"]["kept"] == 5


def test_wrong_key_stops_at_once_names_its_variable_and_marks_nothing_failed(tmp_path: Path) -> None:
    """401 on the first call: exit 1, the variable is named, the key is nowhere, state kept."""
    dataset = gsm8k(tmp_path / "prompts.jsonl", 5)
    with running_endpoint(api_key="right-key-123456") as endpoint:
        options = ["--run-name", "r", "--model", "m", "--base-url", endpoint.base_url, "--json"]
        ended = evrun(
            "run", dataset, *options, "--api-key-env", "MY_KEY", cwd=tmp_path, MY_KEY="wrong-key-654321"
        )
        assert ended.code == 1, ended
        assert "MY_KEY" in ended.json["reason"]
        assert ended.json["counts"]["failed"] == 0
        resumed = evrun("run", *options, "--resume", cwd=tmp_path, MY_KEY="right-key-123456")
        assert resumed.code == 0, resumed
    everything = b"".join(p.read_bytes() for p in (tmp_path / "data").rglob("*") if p.is_file())
    for secret in (b"wrong-key-654321", b"right-key-123456"):
        assert secret not in everything
        assert secret.decode() not in ended.stdout + ended.stderr


def test_mixed_outcomes_end_with_exit_3_and_are_counted_by_class(tmp_path: Path) -> None:
    """One prompt over the context limit fails alone, with its class; the rest are kept; exit 3."""
    dataset = gsm8k(tmp_path / "prompts.jsonl", 6)
    bad = rows_of(dataset)[2]["prompt"]
    error = {"message": "maximum context length is 10 tokens", "code": "context_length_exceeded"}
    rules = [{"match": {"prompt": bad}, "then": {"status": 400, "error": error}}]
    with running_endpoint(rules=rules) as endpoint:
        ended = evrun(
            "run", dataset, "--run-name", "r", "--model", "m", "--base-url", endpoint.base_url, "--json",
            cwd=tmp_path,
        )  # fmt: skip
    assert ended.code == 3, ended
    assert (ended.json["counts"]["kept"], ended.json["counts"]["failed"]) == (5, 1)
    failed = rows_of(tmp_path / "data/r/failed.jsonl")
    assert failed[0]["error"]["class"] == "context_length"
    statistics = json.loads((tmp_path / "data/r/statistics.json").read_text())
    assert statistics["failed_by_class"] == {"context_length": 1}
