"""`evrun run --dry-run`: nothing is sent, nothing is written, and what it says is true of the run."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.case import Case
from tests.endpoint.client import running_endpoint
from tests.runs import Ended, evrun

PRICE = ("--price", "m=0.15,0.60", "--max-tokens", 400)


def tree(directory: Path) -> dict[str, bytes | None]:
    """Everything below a directory."""
    return {
        str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None
        for path in sorted(directory.rglob("*"))
    }


def thought(case: Case, *more: object, code: int = 0) -> Any:
    """What a dry run of the case's command says; it changes no byte below the case's directory."""
    before = tree(case.directory)
    said = evrun(*more, "--dry-run", "--json", cwd=case.directory, **case.env)
    assert tree(case.directory) == before
    assert said.code == code, said
    return said.json if code == 0 else said.stderr


def spent(ended: Ended) -> Decimal:
    """What a run settled."""
    return Decimal(ended.json["settled_usd"])


def within(bounds: dict[str, Any], truth: Decimal) -> bool:
    """Whether an amount is between the bounds."""
    return Decimal(bounds["lower"]) <= truth <= Decimal(bounds["upper"])


def test_a_dry_run_sends_nothing_and_writes_nothing_and_the_run_stays_within(tmp_path: Path) -> None:
    """Not a request, not a file, not a directory; then the run: its calls, tokens and money are between."""
    with running_endpoint() as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", *PRICE)
        case.write("short", "a longer prompt of seven words, this", "größer 数据 " * 20)
        found = thought(case, *case.command())
        assert endpoint.totals()["requests"] == 0
        assert not (tmp_path / "data").exists()
        assert (found["units"], found["refused"], found["calls"]) == (3, 0, {"lower": 3, "upper": 45})
        assert [row["prompt_index"] for row in found["rows"]] == [2, 1, 0]
        assert sum(Decimal(row["upper_usd"]) for row in found["rows"]) == Decimal(found["usd"]["upper"])
        ended = case.first()
        assert ended.code == 0, ended
        assert within(found["usd"], spent(ended))
        assert spent(ended) <= Decimal(found["usd"]["once"])
        totals = endpoint.totals()
        used = totals["input_tokens"] + totals["output_tokens"]
        assert found["tokens"]["lower"] <= used <= found["tokens"]["once"] <= found["tokens"]["upper"]


def test_turns_tools_and_retries_stay_within_the_upper_bound(tmp_path: Path) -> None:
    """Three turns with commands, two answers lost on the way: more than one call, less than the most."""
    command = {"name": "terminal", "arguments": {"command": "seq 2000"}}
    usages = ({"prompt_tokens": tokens, "completion_tokens": 40} for tokens in (900, 9000))
    rules: list[dict[str, Any]] = [
        {"match": {}, "times": 2, "each": True, "then": {"status": 500, "bill": True}},
        *(
            {"match": {"turn": turn}, "then": {"tool_calls": [command], "usage": usage}}
            for turn, usage in enumerate(usages, 1)
        ),
    ]
    with running_endpoint(rules=rules) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "terminal", *PRICE, "--retries", 2)
        case.write("count", "count again")
        found = thought(case, *case.command("--max-turns", 3))
        assert found["calls"] == {"lower": 2, "upper": 18}
        ended = case.first("--max-turns", 3)
        assert (ended.code, ended.json["counts"]["kept"]) == (0, 2), ended
        truth = spent(ended) + Decimal(ended.json["in_doubt_usd"])
        assert truth > Decimal(found["usd"]["once"])
        assert within(found["usd"], truth)


def test_of_a_paused_run_only_what_is_left_is_estimated(tmp_path: Path) -> None:
    """The cap that it paused at is said not to suffice; with another, the rest costs what was said."""
    with running_endpoint() as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", *PRICE, "--concurrency", 1)
        case.write(*(f"prompt number {number}" for number in range(8)))
        once = Decimal(thought(case, *case.command())["usd"]["once"]) / 8
        paused = case.first("--budget-usd", f"{once * Decimal('1.05'):.9f}")
        assert paused.code == 4, paused
        done = paused.json["counts"]["kept"]
        again = ["run", "--run-name", "r", "--resume"]
        found = thought(case, *again)
        assert (found["sequence"], found["units"]) == (paused.json["sequence"], 8 - done)
        (cap,) = found["caps"]
        assert (cap["cap"], cap["suffices"]) == ("usd", "no")
        assert Decimal(cap["left"]) == Decimal(cap["limit"]) - spent(paused)
        enough = Decimal(found["usd"]["upper"]) + spent(paused)
        (cap,) = thought(case, *again, "--budget-usd", f"{enough:.9f}")["caps"]
        assert cap["suffices"] == "yes"
        ended = case.resume("--budget-usd", f"{enough:.9f}")
        assert ended.code == 0, ended
        assert within(found["usd"], spent(ended) - spent(paused))
        found = thought(case, *again)
        assert (found["units"], found["calls"], found["usd"]["upper"]) == (
            0,
            {"lower": 0, "upper": 0},
            "0.00",
        )


def test_new_rows_failed_ones_and_samples_are_counted_when_they_would_be_run(tmp_path: Path) -> None:
    """A resume with another dataset, with --retry-failed, with --samples: as many units as it then runs."""
    rules = [{"match": {"prompt": "bad"}, "then": {"status": 400}}]
    with running_endpoint(rules=rules) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", *PRICE)
        case.write("good", "bad")
        assert case.first().code == 3
        again = ["run", case.dataset, "--run-name", "r", "--resume"]
        assert thought(case, *again)["units"] == 0
        assert thought(case, *again, "--retry-failed")["units"] == 1
        assert thought(case, *again, "--samples", 3)["units"] == 4
        case.write("bad", "new", "newer")
        found = thought(case, *again)
        assert (found["units"], {row["prompt"] for row in found["rows"]}) == (2, {"new", "newer"})


def test_an_attempt_half_done_goes_on_from_where_it_is(tmp_path: Path) -> None:
    """Killed in its second turn of three: two turns are left, with the conversation so far."""
    command = {"name": "terminal", "arguments": {"command": "echo four"}}
    rules = [
        {"match": {"turn": 1}, "then": {"tool_calls": [command]}},
        {"match": {"turn": 2}, "times": 1, "then": {"fault": "hang"}},
    ]
    with running_endpoint(rules=rules) as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "terminal", *PRICE, "--retries", 0, "--max-turns", 3)
        case.write("count")
        before = thought(case, *case.command())
        case.killed_at(1)
        found = thought(case, "run", "--run-name", "r", "--resume")
        assert (before["calls"]["upper"], found["calls"]) == (3, {"lower": 1, "upper": 2})
        assert found["tokens"]["input_lower"] > before["tokens"]["input_lower"]


def test_what_has_no_price_or_no_output_cap_is_said_plainly(tmp_path: Path) -> None:
    """Null and UNPRICED, never 0; and the rows that nothing can be sent for are counted as such."""
    with running_endpoint() as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none")
        rows = [{"prompt": "a"}, {"prompt": "b", "cwd": "/testbed"}]
        case.dataset.write_text("".join(json.dumps(row) + "\n" for row in rows))
        found = thought(case, *case.command())
        assert found["usd"] == {"lower": None, "once": None, "upper": None}
        assert (found["price"], found["tokens"]["upper"], found["tokens"]["lower"]) == (None, None, 2)
        assert (found["units"], found["refused"], found["calls"]["lower"]) == (2, 1, 1)
        assert any(sentence.startswith("UNPRICED") for sentence in found["assumptions"])
        said = evrun(*case.command(), "--dry-run", cwd=tmp_path)
        assert "UNPRICED" in said.stdout
        assert "1 of them will fail: a cwd without an image" in said.stdout
        assert "USD      at least unknown, once unknown, at most unknown" in said.stdout


def test_every_cap_is_judged(tmp_path: Path) -> None:
    """Too small for the least, too small for the most, large enough; time is not known."""
    with running_endpoint() as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none", *PRICE)
        case.write("one", "two")
        caps = ["--budget-calls", 1, "--budget-usd", "0.004", "--budget-tokens", 10**9, "--budget-hours", 1]
        found = thought(case, *case.command(*caps, "--prompt-budget-usd", "0.00000001"))
        verdicts = {cap["cap"]: cap["suffices"] for cap in found["caps"]}
        assert verdicts == {
            "calls": "no", "usd": "perhaps", "tokens": "yes", "hours": "unknown", "prompt_usd": "no",
        }  # fmt: skip
        said = evrun(*case.command(*caps), "--dry-run", cwd=tmp_path).stdout
        assert (
            "cap --budget-calls   1 call, does NOT suffice: at least 2 calls are needed, 1 call left" in said
        )


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (["--budget-usd", "1"], "needs a price"),
        (["--budget-usd", "1", "--price", "m=1,1"], "--max-tokens"),
        (["--budget-usd", "$5"], "is not a number"),
        (["--run-name", "a/b"], "expected letters"),
        (["--toolsets", "browser"], "expected one of"),
    ],
)
def test_what_a_run_would_refuse_a_dry_run_refuses(tmp_path: Path, more: list[str], expected: str) -> None:
    """Exit 2 with the same words, and nothing is there afterwards."""
    with running_endpoint() as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none")
        case.write("p")
        assert expected in thought(case, *case.command(*more), code=2)
        assert endpoint.totals()["requests"] == 0


def test_a_used_name_and_bad_rows_are_refused_too(tmp_path: Path) -> None:
    """The checks of the first minute are the same ones."""
    with running_endpoint() as endpoint:
        case = Case(tmp_path, endpoint, "--toolsets", "none")
        case.write("p")
        assert case.first().code == 0
        assert "holds a run already" in thought(case, *case.command(), code=2)
        case.dataset.write_text('{"prompt": 7}\n')
        assert "line 1" in thought(case, *case.command("--resume"), code=2)
        assert "nothing to resume" in thought(case, "run", "--run-name", "other", "--resume", code=2)
