"""The embedded model, from outside: a real model as an ordinary endpoint, killed and resumed."""

import json
from collections import Counter
from pathlib import Path

import psutil

from tests.runs import ROOT, evrun, kill, prompts_of, rows_of, start, wait_until

EXAMPLES = ROOT / "examples/gsm8k_20.jsonl"
CONCURRENCY = 2


def _kept(run: Path) -> int:
    return sum(len(path.read_bytes().splitlines()) for path in run.glob("batch_*.jsonl"))


def test_killed_run_on_the_embedded_model_resumes_and_its_server_is_gone(tmp_path: Path) -> None:
    """Twenty real prompts, kill -9 after five: --resume finishes them; no server outlives its run."""
    run = tmp_path / "data/r"
    first = start(
        "run", EXAMPLES, "--run-name", "r", "--model", "local", "--toolsets", "none", "--keep-all",
        "--max-tokens", 16, "--seed", 7, cwd=tmp_path,
    )  # fmt: skip
    wait_until(lambda: _kept(run) >= 5, "five kept rows")
    servers = psutil.Process(first.pid).children(recursive=True)
    assert len(servers) == 1
    kill(first)
    _, alive = psutil.wait_procs(servers, timeout=20)
    assert alive == []

    resumed = evrun("run", "--run-name", "r", "--resume", "--json", cwd=tmp_path)

    assert resumed.code == 0, resumed
    assert resumed.json["counts"]["kept"] == 20
    assert sorted(prompts_of(run)) == sorted(row["prompt"] for row in rows_of(EXAMPLES))
    listed = evrun("events", "r", "--type", "ModelAnswered", "--json", cwd=tmp_path)
    units = Counter(json.loads(line)["unit"] for line in listed.stdout.splitlines())
    assert len(units) == 20
    assert set(units.values()) == {1}
    assert evrun("audit", "r", "--json", cwd=tmp_path).json["calls"]["in_doubt"] <= CONCURRENCY
    assert evrun("verify", "r", cwd=tmp_path).code == 0
    assert evrun("replay", "r", "--check", cwd=tmp_path).code == 0
