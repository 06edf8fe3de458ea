"""The embedded model, from outside: a real model as an ordinary endpoint, killed and resumed."""

import json
from collections import Counter
from pathlib import Path

import psutil

from tests.runs import evrun, gsm8k, kill, prompts_of, rows_of, start, wait_until

PROMPTS = 8  # scripts/run does twenty
CONCURRENCY = 2


def _kept(run: Path) -> int:
    return sum(len(path.read_bytes().splitlines()) for path in run.glob("batch_*.jsonl"))


def test_killed_run_on_the_embedded_model_resumes_and_its_server_is_gone(tmp_path: Path) -> None:
    """Eight real prompts, kill -9 after three: --resume finishes them; no server outlives its run."""
    run = tmp_path / "data/r"
    dataset = gsm8k(tmp_path / "prompts.jsonl", PROMPTS)
    first = start(
        "run", dataset, "--run-name", "r", "--model", "local", "--toolsets", "none", "--keep-all",
        "--max-tokens", 16, "--seed", 7, cwd=tmp_path,
    )  # fmt: skip
    wait_until(lambda: _kept(run) >= 3, "three kept rows")
    servers = psutil.Process(first.pid).children(recursive=True)
    assert len(servers) == 1
    kill(first)
    _, alive = psutil.wait_procs(servers, timeout=20)
    assert alive == []

    resumed = evrun("run", "--run-name", "r", "--resume", "--json", cwd=tmp_path)

    assert resumed.code == 0, resumed
    assert resumed.json["counts"]["kept"] == PROMPTS
    assert sorted(prompts_of(run)) == sorted(row["prompt"] for row in rows_of(dataset))
    listed = evrun("events", "r", "--type", "ModelAnswered", "--json", cwd=tmp_path)
    units = Counter(json.loads(line)["unit"] for line in listed.stdout.splitlines())
    assert len(units) == PROMPTS
    assert set(units.values()) == {1}
    assert evrun("audit", "r", "--json", cwd=tmp_path).json["calls"]["in_doubt"] <= CONCURRENCY
    assert evrun("verify", "r", cwd=tmp_path).code == 0
    assert evrun("replay", "r", "--check", cwd=tmp_path).code == 0
