"""Datasets in every form, from the command line: asked once, killed, resumed, and refused for nothing."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eventlog.events import BudgetReserved, RowsSkipped
from tests.e2e.case import Case, hang
from tests.endpoint.client import RunningEndpoint, running_endpoint
from tests.runs import environment, evrun, rows_of, views_of


def case_of(tmp_path: Path, endpoint: RunningEndpoint, name: str, *options: object) -> Case:
    """A case whose dataset has this name."""
    case = Case(tmp_path, endpoint, "--toolsets", "none", "--keep-all", *options)
    case.dataset = tmp_path / name
    return case


def is_as_the_log_says(case: Case) -> bool:
    """Whether `evrun replay --check` finds every view identical."""
    return evrun("replay", case.run_directory, "--check", cwd=case.directory).code == 0


def test_a_table_under_a_template_is_killed_and_resumed_without_its_file(tmp_path: Path) -> None:
    """Each row is asked for once; cells stand in the metadata; nothing of the table is needed again."""
    with running_endpoint(rules=[hang(contains="two")]) as endpoint:
        case = case_of(tmp_path, endpoint, "d.csv", "--template", "{style}: {text}", "--concurrency", 1)
        case.dataset.write_bytes(b'text,style\r\none,"short, sweet"\r\n"two\r\nlines",long\r\nthree,\r\n')
        case.killed_at(1)
        case.dataset.unlink()
        assert case.resume().code == 0
        asked = case.asked()
    wanted = ["short, sweet: one", "long: two\r\nlines", ": three"]
    assert list(dict.fromkeys(asked)) == wanted
    assert asked.count(wanted[0]) == asked.count(wanted[2]) == 1
    rows = case.rows()
    assert [row["conversations"][1]["value"] for row in rows] == wanted
    shown = rows[0]["metadata"]
    assert (shown["text"], shown["style"]) == ("one", "short, sweet")
    assert is_as_the_log_says(case)


def test_messages_of_a_parquet_file_go_on_the_wire_and_its_other_columns_to_the_outputs(
    tmp_path: Path,
) -> None:
    """Two conversations; the second's earlier turns are sent with it."""
    talk = [("user", "a"), ("assistant", "b"), ("user", "c")]
    rows: list[dict[str, Any]] = [
        {"messages": [{"role": "user", "content": "hello"}], "n": 1},
        {"messages": [{"role": role, "content": text} for role, text in talk], "n": 2},
    ]
    with running_endpoint() as endpoint:
        case = case_of(tmp_path, endpoint, "d.parquet")
        pq.write_table(pa.Table.from_pylist(rows), case.dataset)
        assert case.first().code == 0
        assert sorted(case.asked()) == ["c", "hello"]
    by_number = {row["metadata"]["n"]: row["conversations"] for row in case.rows()}
    assert [turn["value"] for turn in by_number[2][1:4]] == ["a", "<think>\n</think>\nb", "c"]
    assert is_as_the_log_says(case)


def test_standard_input_is_a_dataset(tmp_path: Path) -> None:
    """And is recorded as such; a resume does not need it."""
    with running_endpoint() as endpoint:
        case = case_of(tmp_path, endpoint, "unused.jsonl")
        command = [part if part != case.dataset else "-" for part in case.command()]
        done = subprocess.run(
            [sys.executable, "-m", "cli.main", *map(str, command)],
            cwd=tmp_path,
            env=environment(),
            input=b'{"prompt": "from afar", "id": 7}\n',
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert case.resume().code == 0
        assert case.asked() == ["from afar"]
    assert case.rows()[0]["metadata"]["id"] == 7


BAD: dict[str, tuple[str, bytes, tuple[object, ...], list[str]]] = {
    "a table": (
        "d.csv",
        b'prompt,id\na,1\n" ",2\nb\nc,4\n',
        (),
        ["line 3: blank prompt", "line 4: 1 cell, and the header names 2"],
    ),
    "a template": (
        "d.jsonl",
        b'{"q": "a"}\n{"p": "b"}\n{"q": "c"}\n3\n',
        ("--template", "Say {q}"),
        [
            "line 2: the template names {q}, which the row does not have (found the fields p)",
            "line 4: not an",
        ],
    ),
    "batch lines": (
        "d.jsonl",
        b"".join(
            json.dumps(
                {
                    "custom_id": name,
                    "url": url,
                    "body": {"messages": [{"role": "user", "content": name}]},
                }
            ).encode()
            + b"\n"
            for name, url in [("a", "/v1/chat/completions"), ("b", "/v1/responses")]
        ),
        (),
        ["line 2: url is not /v1/chat/completions"],
    ),
}


@pytest.mark.parametrize(("name", "data", "options", "found"), BAD.values(), ids=BAD)
def test_bad_rows_of_any_form_are_all_listed_and_cost_nothing_unless_they_are_skipped(
    tmp_path: Path, name: str, data: bytes, options: tuple[object, ...], found: list[str]
) -> None:
    """Exit 2 and no run; with --skip-bad-rows the others run and the log says what was left out."""
    with running_endpoint() as endpoint:
        case = case_of(tmp_path, endpoint, name, *options)
        case.dataset.write_bytes(data)
        refused = case.first()
        assert refused.code == 2
        assert all(words in refused.stderr for words in found)
        assert not case.run_directory.exists()
        assert endpoint.requests() == []
        assert case.first("--skip-bad-rows").code == 0
        assert endpoint.totals()["answered"] == data.count(b"\n") - len(found) - name.endswith("csv")
    (skipped,) = case.events(RowsSkipped)
    assert [f"line {line}" for line, _ in skipped.lines] == [words.partition(":")[0] for words in found]


def lines_of(*names: str, **body: object) -> bytes:
    """Batch lines of these names, each asking for itself."""
    lines = [
        {
            "custom_id": name,
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {"model": "m", "messages": [{"role": "user", "content": name}], **body},
        }
        for name in names
    ]
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def test_batch_lines_are_answered_once_each_also_over_a_kill(tmp_path: Path) -> None:
    """Every name has one line in OpenAI's output, with the whole answer; replay makes the same bytes."""
    call = {"tool_calls": [{"name": "f", "arguments": {}}]}
    rules = [hang(prompt="c"), {"match": {"prompt": "b"}, "then": call}]
    with running_endpoint(rules=rules) as endpoint:
        case = case_of(tmp_path, endpoint, "d.jsonl", "--concurrency", 1)
        case.dataset.write_bytes(lines_of("a", "b", "c", "d", max_tokens=7))
        case.killed_at(1)
        assert case.resume().code == 0
        requests = endpoint.totals()["requests"]
        assert case.resume().code == 0
        assert endpoint.totals()["requests"] == requests == 5
    output = case.rows("openai_output.jsonl")
    assert [line["custom_id"] for line in output] == ["a", "b", "c", "d"]
    assert [line["error"] for line in output] == [None] * 4
    answers = [line["response"]["body"]["choices"][0] for line in output]
    assert [answer["finish_reason"] for answer in answers] == ["stop", "tool_calls", "stop", "stop"]
    assert answers[0]["message"]["content"] == "Answer to a"
    assert not (case.run_directory / "openai_errors.jsonl").exists()
    assert is_as_the_log_says(case)
    # The line's own cap is what was set aside for its answer.
    assert {event.bound_output_tokens for event in case.events(BudgetReserved)} == {7}


def test_a_batch_line_that_fails_is_an_error_line_until_it_is_tried_again(tmp_path: Path) -> None:
    """With status and class; a later answer takes its place in the output, and the error file goes."""
    rule = {"match": {"prompt": "b"}, "times": 1, "then": {"status": 400, "error": {"message": "too odd"}}}
    with running_endpoint(rules=[rule]) as endpoint:
        case = case_of(tmp_path, endpoint, "d.jsonl")
        case.dataset.write_bytes(lines_of("a", "b"))
        assert case.first().code == 3
        (error,) = case.rows("openai_errors.jsonl")
        assert (error["custom_id"], error["response"]["status_code"]) == ("b", 400)
        assert error["error"] == {"code": "bad_request", "message": "too odd"}
        assert [line["custom_id"] for line in case.rows("openai_output.jsonl")] == ["a"]
        for unfit in (["--template", "Say {prompt}"], ["--tool-choice", "auto"]):
            refused = case.resume("--retry-failed", *unfit)
            assert refused.code == 2
            assert "prompt_index 1: a batch line " in refused.stderr
        assert case.resume("--retry-failed").code == 0
    assert [line["custom_id"] for line in case.rows("openai_output.jsonl")] == ["a", "b"]
    assert not (case.run_directory / "openai_errors.jsonl").exists()
    assert is_as_the_log_says(case)


def test_the_lines_model_is_the_run_s_where_none_is_named(tmp_path: Path) -> None:
    """And another one named on the command line is refused, with every line."""
    with running_endpoint() as endpoint:
        (tmp_path / "d.jsonl").write_bytes(lines_of("a", "b"))
        where = ["run", "d.jsonl", "--base-url", endpoint.base_url, "--keep-all", "--run-name"]
        refused = evrun(*where, "x", "--model", "n", cwd=tmp_path)
        assert refused.code == 2
        assert "line 2: body.model 'm': the run's model is 'n'" in refused.stderr
        assert evrun(*where, "y", cwd=tmp_path).code == 0
        assert [request["model"] for request in endpoint.requests()] == ["m", "m"]


def test_another_wording_of_a_template_is_a_changed_setting_and_other_fields_need_the_dataset(
    tmp_path: Path,
) -> None:
    """The rows stay known: only what was not answered is asked with the new words."""
    rule = {"match": {"contains": "two"}, "times": 1, "then": {"status": 400, "error": {"message": "no"}}}
    with running_endpoint(rules=[rule]) as endpoint:
        case = case_of(tmp_path, endpoint, "d.jsonl", "--template", "Say {q}", "--concurrency", 1)
        case.dataset.write_bytes(b'{"q": "one", "r": "1"}\n{"q": "two", "r": "2"}\n')
        assert case.first().code == 3
        refused = case.resume("--template", "{q} {r}", "--retry-failed")
        assert refused.code == 2
        assert "names other fields than before" in refused.stderr
        assert case.resume(case.dataset, "--template", "Tell me {q}", "--retry-failed").code == 0
        assert case.asked() == ["Say one", "Say two", "Tell me two"]
        assert case.resume(case.dataset).code == 0
        assert len(case.asked()) == 3


def test_another_wording_that_a_recorded_row_does_not_fit_is_refused_for_nothing(tmp_path: Path) -> None:
    """Without the dataset the rows in the log are looked at; nothing is written to it, and nothing asked."""
    rule = {"match": {}, "then": {"status": 400, "error": {"message": "no"}}}
    with running_endpoint(rules=[rule]) as endpoint:
        case = case_of(tmp_path, endpoint, "d.jsonl", "--template", "Say {q}")
        case.dataset.write_bytes(b'{"q": "one"}\n{"q": " "}\n')
        assert case.first().code == 3
        asked, known = endpoint.totals()["requests"], len(case.events())
        refused = case.resume("--template", "{q}", "--retry-failed")
        assert refused.code == 2
        assert "prompt_index 1: blank prompt" in refused.stderr
        assert (endpoint.totals()["requests"], len(case.events())) == (asked, known)
        assert case.resume("--template", "Do say {q}", "--retry-failed").code == 3
        assert sorted(case.asked()[2:]) == ["Do say  ", "Do say one"]


def test_more_samples_are_added_to_the_batches_of_their_rows(tmp_path: Path) -> None:
    """What stood in a finished batch's file is still its beginning."""
    with running_endpoint() as endpoint:
        case = case_of(tmp_path, endpoint, "d.jsonl", "--batch-size", 2)
        case.write("a", "b", "c")
        assert case.first().code == 0
        before = views_of(case.run_directory)
        assert case.resume(case.dataset, "--samples", 2).code == 0
    for number, names in ((1, [0, 1, 0, 1]), (2, [2, 2])):
        file = f"batch_{number}.jsonl"
        assert views_of(case.run_directory)[file].startswith(before[file])
        assert sorted(row["prompt_index"] for row in case.rows(file)) == sorted(names)
    assert not (case.run_directory / "batch_3.jsonl").exists()
    assert len(rows_of(case.run_directory / "trajectories.jsonl")) == 6
    assert is_as_the_log_says(case)
