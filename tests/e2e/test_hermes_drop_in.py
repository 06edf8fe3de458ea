"""A Hermes command line, unchanged after `evrun run`, and the scripts of its users on what comes out."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from cli.fire_flags import plain_switches
from evrun.errors import UsageFault
from tests.e2e.reading import load
from tests.endpoint.client import running_endpoint
from tests.runs import Ended, evrun, rows_of, write_prompts

FIRST = "--dataset_file=data/prompts.jsonl --batch_size=10 --run_name=my_first_run --num_workers=4"
PROMPTS = [f"prompt {number}" for number in range(23)]
FILE_CALL = {"tool_calls": [{"name": "list_files", "arguments": {}}]}


def hermes(tmp_path: Path, line: str, base_url: str) -> Ended:
    """Run a Hermes command line with what Hermes's users have in their environment."""
    return evrun(
        "run", *shlex.split(line), cwd=tmp_path, OPENAI_BASE_URL=base_url, OPENAI_API_KEY="sk-test-key"
    )


def dataset(tmp_path: Path) -> None:
    """The dataset of the documentation."""
    (tmp_path / "data").mkdir()
    write_prompts(tmp_path / "data/prompts.jsonl", PROMPTS)


# What stands in its users' notebooks: totals by tool, error rates, which toolsets were on, rows of a batch.
SCRIPT = """
import collections, glob, json
rows = [json.loads(line) for line in open("data/my_first_run/trajectories.jsonl", encoding="utf-8")]
tools, errors, toolsets = collections.Counter(), collections.Counter(), collections.Counter()
for row in rows:
    for name, stats in row["tool_stats"].items():
        tools[name] += stats["count"]
        assert stats["count"] >= stats["success"] + stats["failure"]
    for name, count in row["tool_error_counts"].items():
        errors[name] += count
    toolsets.update(row["toolsets_used"])
    turns = row["conversations"]
    assert [turn["from"] for turn in turns[:2]] == ["system", "human"]
    assert set(turn["from"] for turn in turns) <= {"system", "human", "gpt", "tool"}
    assert isinstance(row["completed"], bool) and isinstance(row["partial"], bool)
    assert row["metadata"]["model"] and row["metadata"]["timestamp"]
by_batch = collections.Counter(row["metadata"]["batch_num"] for row in rows)
merged = sum(len(open(name).readlines()) for name in glob.glob("data/my_first_run/batch_*.jsonl"))
statistics = json.load(open("data/my_first_run/statistics.json"))
checkpoint = json.load(open("data/my_first_run/checkpoint.json"))
print(json.dumps({
    "rows": len(rows), "merged": merged, "calls": sum(row["api_calls"] for row in rows),
    "indices": sorted(row["prompt_index"] for row in rows),
    "tools": {name: count for name, count in tools.items() if count}, "errors": sum(errors.values()),
    "toolsets": sorted(toolsets), "by_batch": sorted(by_batch.items()),
    "statistics": [statistics[name] for name in
        ("run_name", "distribution", "batch_size", "total_prompts", "total_batches", "model")],
    "success_rate": statistics["tool_statistics"]["list_files"]["success_rate"],
    "reasoning": statistics["reasoning_statistics"]["total_assistant_turns"],
    "run": checkpoint["run_name"],
}))
"""


def test_a_hermes_command_line_works_unchanged_and_so_do_its_users_scripts(tmp_path: Path) -> None:
    """Run, resume, and read: totals by tool, errors, toolsets, batches, statistics, checkpoint."""
    dataset(tmp_path)
    rules = [{"match": {"contains": "1", "turn": 1}, "then": FILE_CALL}]
    with running_endpoint(rules=rules) as endpoint:
        ended = hermes(tmp_path, FIRST, endpoint.base_url)
        assert ended.code == 0, ended
        requests = endpoint.totals()["requests"]
        resumed = hermes(tmp_path, f"{FIRST} --resume", endpoint.base_url)
        assert (resumed.code, endpoint.totals()["requests"]) == (0, requests), resumed
    read = subprocess.run([sys.executable, "-c", SCRIPT], cwd=tmp_path, capture_output=True, check=True)
    asked = sum("1" in prompt for prompt in PROMPTS)
    assert json.loads(read.stdout) == {
        "rows": 23, "merged": 23, "calls": 23 + asked, "indices": list(range(23)),
        "tools": {"list_files": asked}, "errors": 0, "by_batch": [[1, 10], [2, 10], [3, 3]],
        "toolsets": sorted(toolsets_of(tmp_path)), "success_rate": 100.0, "reasoning": 23 + asked,
        "statistics": ["my_first_run", "default", 10, 23, 3, "test-model"], "run": "my_first_run",
    }  # fmt: skip


def toolsets_of(tmp_path: Path) -> set[str]:
    """The toolsets that the rows say they had: every one of the default distribution that evrun has."""
    found = {
        name
        for item in rows_of(tmp_path / "data/my_first_run/trajectories.jsonl")
        for name in item["toolsets_used"]
    }
    assert {"terminal", "file"} <= found
    return found


LINES = {
    "every option": (
        "--dataset_file=data/prompts.jsonl --batch_size=2 --run_name=2026_01_15 --distribution=terminal_only "
        "--model=test-model --base_url=BASE --max_turns=3 --num_workers=2 --verbose --log_prefix_chars=20 "
        '--ephemeral_system_prompt="[be short]" --providers_allowed="anthropic,openai" --max_tokens=50 '
        "--providers_ignored=a --providers_order=b,c --provider_sort=price --reasoning_effort=high "
        "--prefill_messages_file=prefill.json --max_samples=3"
    ),
    "with dashes": (
        "--dataset-file data/prompts.jsonl --batch-size 2 --run-name 1e5 --max-samples 3 --num-workers 2 "
        "--prefill-messages-file prefill.json --provider-sort price --ephemeral-system-prompt x"
    ),
    "as Fire reads it": (
        "--dataset_file=data/prompts.jsonl --batch_size=10 --run_name=r --max_samples=3 --resume=false "
        "--verbose=False --reasoning_disabled=True --nolist_distributions"
    ),
    "all samples": (
        "--dataset_file=data/prompts.jsonl --batch_size=10 --run_name=r --max_samples=0 --resume=True"
    ),
}


@pytest.mark.parametrize("name", LINES)
def test_every_option_of_hermes_is_taken_in_both_spellings(tmp_path: Path, name: str) -> None:
    """What Fire would turn into a number, a tuple or a truthy string is what was typed."""
    dataset(tmp_path)
    prefill = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]
    (tmp_path / "prefill.json").write_text(json.dumps(prefill))
    with running_endpoint() as endpoint:
        ended = hermes(tmp_path, LINES[name].replace("BASE", endpoint.base_url), endpoint.base_url)
        assert ended.code == 0, ended
        assert endpoint.totals()["answered"] == (23 if name == "all samples" else 3)


def test_a_switch_is_on_only_where_it_says_so() -> None:
    """Fire takes `--resume=false` for true; here it is off, and a value that is neither is refused."""
    on: list[list[str]] = [
        ["--resume"],
        ["--resume=true"],
        ["--resume=True"],
        ["--resume", "True"],
        ["--resume=1"],
    ]
    off: list[list[str]] = [
        ["--resume=false"],
        ["--resume", "False"],
        ["--noresume"],
        ["--no_resume"],
        ["--resume=0"],
    ]
    assert [plain_switches([*form, "d.jsonl"]) for form in on] == [["--resume", "d.jsonl"]] * len(on)
    assert [plain_switches([*form, "d.jsonl"]) for form in off] == [["d.jsonl"]] * len(off)
    untouched = ["d.jsonl", "--run_name=resume", "--no-stream", "--seed", "1", "--", "--resume=false"]
    assert plain_switches(untouched) == untouched
    assert plain_switches(["--list_distributions=True"]) == ["--list_distributions"]
    with pytest.raises(UsageFault, match="--resume=maybe: expected true or false"):
        plain_switches(["--resume=maybe"])


def test_a_key_on_the_command_line_is_refused_and_distributions_are_listed(tmp_path: Path) -> None:
    """The two forms of Hermes that need no run: one names the way that is safe, one prints and ends."""
    refused = evrun("run", *shlex.split(FIRST), "--api_key=sk-secret", cwd=tmp_path)
    assert (refused.code, "--api-key-env" in refused.stderr, "sk-secret" in str(refused)) == (2, True, False)
    listed = evrun("run", "--list_distributions", cwd=tmp_path)
    assert (listed.code, "terminal_only" in listed.stdout) == (0, True)


def test_datasets_loads_the_trajectories_with_one_schema(tmp_path: Path) -> None:
    """Rows with and without tools, errors, fields of their own of several types: one file, one schema."""
    (tmp_path / "data").mkdir()
    rows = [
        {"prompt": "a", "level": 3},
        {"prompt": "b1", "tags": ["x"]},
        {"prompt": "c", "metadata": {"id": "7"}},
    ]
    (tmp_path / "data/prompts.jsonl").write_text("".join(json.dumps(item) + "\n" for item in rows))
    rules = [{"match": {"contains": "1", "turn": 1}, "then": FILE_CALL}]
    with running_endpoint(rules=rules) as endpoint:
        assert hermes(tmp_path, FIRST, endpoint.base_url).code == 0
    path = tmp_path / "data/my_first_run/trajectories.jsonl"
    assert load(tmp_path, path) == [3, sorted(json.loads(path.read_text().splitlines()[0])), [0, 1, 2]]
