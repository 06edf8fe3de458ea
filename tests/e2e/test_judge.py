"""The judge from the command line: scores, rejection sampling, money, and what a crash leaves of it."""

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from eventlog.events import BudgetReserved, ModelAnswered, SettingsChanged, TrajectoryJudged
from evrun.batch import Options, run_batch
from evrun.errors import UsageFault
from tests.e2e.case import Case, hang
from tests.e2e.test_trajectory_kills import Camera, Quiet
from tests.endpoint.client import RunningEndpoint, running_endpoint
from tests.evrun.acting import events_in
from tests.runs import evrun, rows_of

RUBRIC = "RUBRIC-7: 1 is right, 0 is wrong"
REMINDER = "No score could be read"
PRICE = ("--toolsets", "none", "--price", "m=1,10", "--max-tokens", 100)


def says(text: str, **match: Any) -> dict[str, Any]:
    """A rule: the judge answers this."""
    return {"match": {"contains": "RUBRIC-7", **match}, "then": {"text": text, "reasoning": ""}}


def judged_case(tmp_path: Path, endpoint: RunningEndpoint, *more: object, **env: str) -> Case:
    """A run of one prompt whose answers a model judges."""
    (tmp_path / "rubric.md").write_text(RUBRIC)
    case = Case(tmp_path, endpoint, *PRICE, "--judge", "llm:rubric.md", *more, **env)
    case.write("p")
    return case


def of_the_judge(endpoint: RunningEndpoint) -> list[bool]:
    """Whether each request so far was one to the judge."""
    return [
        "RUBRIC-7" in request["prompt"] or REMINDER in request["prompt"] for request in endpoint.requests()
    ]


def test_rejection_sampling_sets_aside_what_scores_low_and_a_changed_limit_costs_nothing(
    tmp_path: Path,
) -> None:
    """Three samples, three scores; a lower limit and the way back make no call, without the rubric's file."""
    rules = [says(json.dumps({"score": n, "feedback": f"no. {n}"}), from_request=1) for n in (1, 2, 3)]
    for rule in rules:
        rule["times"] = 1
    with running_endpoint(rules=rules) as endpoint:
        case = judged_case(tmp_path, endpoint, "--samples", 3, "--min-score", 2.5, "--concurrency", 1)
        ended = case.first()
        assert (ended.code, ended.json["counts"]["kept"], ended.json["counts"]["discarded"]) == (0, 1, 2)
        kept, low = case.rows(), case.rows("discarded.jsonl")
        assert [(row["score"], row["feedback"]) for row in kept] == [(3.0, "no. 3")]
        assert [(row["score"], row["reason"]) for row in low] == [(1.0, "low_score"), (2.0, "low_score")]
        assert case.statistics()["scores"] == {"judged": 3, "mean": 2.0, "min": 1.0, "max": 3.0}
        assert all(len(row["conversations"]) == 3 and row["api_calls"] == 1 for row in kept + low)
        (tmp_path / "rubric.md").unlink()
        rows = {
            name: (case.run_directory / name).read_bytes() for name in ("batch_1.jsonl", "discarded.jsonl")
        }
        assert case.resume("--min-score", 1.5).json["counts"]["kept"] == 2
        assert [row["score"] for row in case.rows()] == [2.0, 3.0]
        again = case.resume("--min-score", 2.5)
        assert "changed against the record: min_score 1.5 -> 2.5" in again.stderr
        assert {name: (case.run_directory / name).read_bytes() for name in rows} == rows
        assert endpoint.totals()["requests"] == 6
        audit = evrun("audit", "r", "--json", cwd=tmp_path).json
        assert [(role["role"], role["calls"]) for role in audit["by_role"]] == [("judge", 3), ("rollout", 3)]
        assert all(check["ok"] for check in audit["checks"])
        assert evrun("replay", "r", "--check", cwd=tmp_path).code == 0


def work(output: Path, base_url: str, ui: Any, *, resume: bool) -> Any:
    """One session of a judged run, in this process."""
    given = {
        "model": "m", "base_url": base_url, "toolsets": [], "max_tokens": 100, "prices": ["m=1,10"],
    }  # fmt: skip
    if not resume:
        given["judge"] = f"llm:{output.parent / 'rubric.md'}"
    dataset = None if resume else output.parent / "d.jsonl"
    options = Options(run_name="r", output_dir=output, resume=resume, dataset=dataset, given=given)
    return anyio.run(partial(run_batch, options, {}, ui))


def test_whatever_event_a_judged_run_stops_after_no_answer_is_paid_again(tmp_path: Path) -> None:
    """Resumed from a picture after each event: the same trajectory and score, each answer asked for once."""
    (tmp_path / "rubric.md").write_text(RUBRIC)
    (tmp_path / "d.jsonl").write_text('{"prompt": "p"}\n')
    rules = [says('{"score": 0.5, "feedback": "fine"}', contains=REMINDER), says("I like it")]
    with running_endpoint(rules=rules) as endpoint:
        camera = Camera(tmp_path / "data/r", tmp_path / "pictures")
        assert work(tmp_path / "data", endpoint.base_url, camera, resume=False).exit_code == 0
        (whole,) = rows_of(tmp_path / "data/r/trajectories.jsonl")
        assert (whole["score"], whole["feedback"], whole["api_calls"]) == (0.5, "fine", 1)
        assert of_the_judge(endpoint) == [False, True, True]
        (tmp_path / "rubric.md").unlink()
        planned = [name for name, sequence in camera.sequences.items() if sequence >= 3]
        assert len(planned) >= 14
        for name in planned:
            output = tmp_path / "pictures" / name
            answered = sum(isinstance(event, ModelAnswered) for event in events_in(output / "r"))
            asked = len(endpoint.requests())
            result = work(output, endpoint.base_url, Quiet(), resume=True)
            assert (result.name, result.exit_code) == ("done", 0), name
            assert of_the_judge(endpoint)[asked:] == [False, True, True][answered:], name
            (row,) = rows_of(output / "r/trajectories.jsonl")
            same = ("conversations", "score", "feedback", "api_calls", "attempt", "settings")
            assert {field: row[field] for field in same} == {field: whole[field] for field in same}, name
            events = events_in(output / "r")
            assert sum(isinstance(event, TrajectoryJudged) for event in events) == 1, name


def test_a_process_killed_while_the_judge_is_asked_asks_only_the_judge_again(tmp_path: Path) -> None:
    """By kill -9: the rollout's answer stands; the lost call is in doubt, and named with its role."""
    rules = [hang(contains="RUBRIC-7"), says('{"score": 1}')]
    with running_endpoint(rules=rules) as endpoint:
        case = judged_case(tmp_path, endpoint)
        case.killed_at(1)
        ended = case.resume()
        assert (ended.code, ended.json["counts"]["kept"]) == (0, 1), ended
        assert of_the_judge(endpoint) == [False, True, True]
        (doubt,) = evrun("audit", "r", "--json", cwd=tmp_path).json["in_doubt"]
        assert doubt["role"] == "judge"


def test_a_cap_that_the_judge_meets_pauses_the_run_and_a_higher_one_lets_it_go_on(tmp_path: Path) -> None:
    """The conversation is not asked for again; the bound of the judge's call was reserved like any other."""
    with running_endpoint(rules=[says('{"score": 1}')]) as endpoint:
        case = judged_case(tmp_path, endpoint)
        ended = case.first("--budget-calls", 1)
        assert (ended.code, ended.json["counts"]["open"]) == (4, 1), ended
        assert case.resume("--budget-calls", 2).json["counts"]["kept"] == 1
        assert of_the_judge(endpoint) == [False, True]
        reserved = [event for event in case.events(BudgetReserved) if event.role == "judge"]
        assert [event.bound_output_tokens for event in reserved] == [100]
        assert reserved[0].bound_nano_usd > 0


def test_a_prompt_s_own_budget_holds_for_its_judge_too(tmp_path: Path) -> None:
    """A call of the judge that does not fit fails the prompt, and is never sent."""
    with running_endpoint(rules=[says('{"score": 1}')]) as endpoint:
        case = judged_case(tmp_path, endpoint)
        ended = case.first("--prompt-budget-usd", "0.002")
        assert (ended.code, ended.json["counts"]["failed"]) == (3, 1), ended
        (row,) = case.rows("failed.jsonl")
        assert row["error"]["class"] == "prompt_budget"
        assert of_the_judge(endpoint) == [False]


def test_a_judge_that_gives_no_score_fails_the_prompt_and_keeps_the_conversation(tmp_path: Path) -> None:
    """After three answers; and a judge that the endpoint refuses fails it too, by that class."""
    with running_endpoint(rules=[says("nice", contains=REMINDER), says("nice")]) as endpoint:
        case = judged_case(tmp_path, endpoint)
        assert case.first().code == 3
        (row,) = case.rows("failed.jsonl")
        assert (row["error"]["class"], row["error"]["retryable"]) == ("judge_failed", True)
        assert "3 answers" in row["error"]["message"]
        assert row["conversations"][-1]["from"] == "gpt"
        assert of_the_judge(endpoint) == [False, True, True, True]
        endpoint.set_rules(
            [{"match": {"contains": "RUBRIC-7"}, "then": {"status": 400, "error": {"message": "too long"}}}]
        )
        assert case.resume("--retry-failed").code == 3
        (row,) = case.rows("failed.jsonl")
        assert (row["error"]["class"], row["error"]["status"]) == ("judge_failed", 400)
        assert "too long" in row["error"]["message"]


def test_a_new_judge_is_recorded_and_named_and_looks_only_at_what_ends_from_then_on(tmp_path: Path) -> None:
    """What has a score keeps it, what has none gets none; both are said. And a judge can be taken away."""
    with running_endpoint(rules=[says('{"score": 1}')]) as endpoint:
        case = Case(tmp_path, endpoint, *PRICE)
        case.write("p")
        assert case.first().code == 0
        (tmp_path / "rubric.md").write_text(RUBRIC)
        case.write("p", "q")
        ended = case.resume(case.dataset, "--judge", "llm:rubric.md")
        assert "judge None -> 'llm:rubric.md'" in ended.stderr
        assert "1 finished trajectories stay as they are" in ended.stderr
        assert sorted((row["prompt_index"], row["score"]) for row in case.rows()) == [(0, None), (1, 1.0)]
        (tmp_path / "rubric.md").write_text(RUBRIC + ", 2 is splendid")
        changed = case.resume("--judge", "llm:rubric.md")
        assert "judge_text" in changed.stderr
        assert case.events(SettingsChanged)[-1].changes.keys() == {"judge_text"}
        case.write("p", "q", "s")
        assert case.resume(case.dataset, "--judge", "none").code == 0
        assert [row["score"] for row in case.rows() if row["prompt_index"] == 2] == [None]
        assert sum(of_the_judge(endpoint)) == 1


def test_a_dry_run_counts_the_judge(tmp_path: Path) -> None:
    """Three answers of it may be needed, each sent as often as any call; the run stays within."""
    with running_endpoint(rules=[says('{"score": 1}')]) as endpoint:
        case = judged_case(tmp_path, endpoint, "--retries", 1)
        found = evrun(*case.command("--dry-run", "--json"), cwd=tmp_path).json
        assert found["calls"] == {"lower": 1, "upper": 2 * (3 + 3)}
        spent = float(case.first().json["settled_usd"])
        assert float(found["usd"]["lower"]) <= spent <= float(found["usd"]["once"])


FUNCTION = """
import time
def score(prompt, trajectory):
    print("noise")
    words = len(trajectory["conversations"][-1]["value"].split())
    if prompt == "slow":
        time.sleep(600)
    if prompt == "dies":
        raise SystemExit(3)
    if prompt == "word":
        return "much"
    return {"score": words, "feedback": f"{trajectory['row'].get('id')} \\ud800 hunter2secret"}

async def later(prompt, trajectory):
    return 1
"""


def test_a_function_judges_in_a_process_of_its_own(tmp_path: Path) -> None:
    """Its numbers are scores; what it prints is no answer; secrets in its words are replaced."""
    (tmp_path / "j.py").write_text(FUNCTION)
    with running_endpoint(text="one two three") as endpoint:
        case = Case(tmp_path, endpoint, *PRICE, "--judge", "j.py:score", MY_API_KEY="hunter2secret")
        case.dataset.write_text('{"prompt": "p", "id": 7}\n{"prompt": "word"}\n{"prompt": "dies"}\n')
        ended = case.first()
        assert (ended.code, ended.json["counts"]["kept"]) == (3, 1), ended
        (row,) = case.rows()
        assert (row["score"], row["feedback"]) == (9.0, "7 \ufffd [redacted:MY_API_KEY]")
        assert {row["error"]["class"] for row in case.rows("failed.jsonl")} == {"judge_failed"}
        messages = {row["prompt_index"]: row["error"]["message"] for row in case.rows("failed.jsonl")}
        assert "'much'; expected a finite number" in messages[1]
        assert "j.py:9: SystemExit: 3" in messages[2]
        assert endpoint.totals()["requests"] == 3
        assert not list(tmp_path.glob("**/__pycache__"))


def test_a_judge_that_hangs_is_ended_at_the_prompt_s_deadline(tmp_path: Path) -> None:
    """The prompt fails with its class; the run goes on."""
    (tmp_path / "j.py").write_text(FUNCTION)
    with running_endpoint() as endpoint:
        case = Case(tmp_path, endpoint, *PRICE, "--judge", "j.py:score", "--concurrency", 1)
        case.write("slow", "p")
        ended = case.first("--prompt-timeout", 5)
        assert (ended.json["counts"]["failed"], ended.json["counts"]["kept"]) == (1, 1), ended
        (row,) = case.rows("failed.jsonl")
        assert (row["error"]["class"], "no score within" in row["error"]["message"]) == ("judge_failed", True)


BAD = [
    ("nothing.md", "expected llm:RUBRIC_FILE"),
    ("llm:nothing.md", "No such file"),
    ("llm:empty.md", "is empty"),
    ("llm:latin.md", "not UTF-8"),
    ("nothing.py:score", "No such file"),
    ("broken.py:score", "broken.py:2: SyntaxError"),
    ("raises.py:score", "raises.py:1: ZeroDivisionError"),
    ("j.py:nope", "nothing of that name"),
    ("j.py:later", "a coroutine function"),
]


@pytest.mark.parametrize(("judge", "found"), BAD)
def test_a_judge_that_cannot_judge_is_refused_before_anything_is_written(
    tmp_path: Path, judge: str, found: str
) -> None:
    """What was found is said; there is no directory, and nobody was asked."""
    (tmp_path / "j.py").write_text(FUNCTION)
    (tmp_path / "empty.md").write_text(" \n")
    (tmp_path / "latin.md").write_bytes(b"gr\xfc\xdfe")
    (tmp_path / "broken.py").write_text("x = 1\ndef score(:\n")
    (tmp_path / "raises.py").write_text("1 / 0\ndef score(p, t): return 1\n")
    (tmp_path / "d.jsonl").write_text('{"prompt": "p"}\n')
    kind, path = ("llm:", judge[4:]) if judge.startswith("llm:") else ("", judge)
    given = {"model": "m", "base_url": "http://127.0.0.1:9/v1", "judge": f"{kind}{tmp_path}/{path}"}
    options = Options(run_name="r", output_dir=tmp_path / "data", dataset=tmp_path / "d.jsonl", given=given)
    with pytest.raises(UsageFault, match=re.escape(found)):
        anyio.run(partial(run_batch, options, {}, Quiet()))
    assert not (tmp_path / "data").exists()


def test_a_least_score_without_a_judge_is_refused(tmp_path: Path) -> None:
    """It could set nothing aside."""
    with running_endpoint() as endpoint:
        case = Case(tmp_path, endpoint, *PRICE, "--min-score", 1)
        case.write("p")
        ended = case.first()
        assert (ended.code, "--min-score without --judge" in ended.stderr) == (2, True), ended
