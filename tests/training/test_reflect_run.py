"""`evolver: reflect` by the real command, on the second example's tasks and files."""

import json
import shutil

import yaml

from tests.cli.shell import evrun
from tests.runs import ROOT
from tests.training.oracle import running_oracle

RULE = "End with the number alone."


def model(messages):
    """Writes the rule when asked for better instructions; told the rule, it knows one answer."""
    if "better" in messages[0]["content"]:
        return f"<<<FILE ADAPTER.md>>>\n{RULE}\n<<<END>>>"
    told = RULE in messages[0]["content"]
    return "So it comes to 72" if told and "Natalia" in messages[-1]["content"] else "It comes to 0 or so"


def test_the_second_example_trains_through_a_model(tmp_path):
    """Step 1: the rewriting solves one task more of four and is kept; step 2: it solves none more."""
    place = tmp_path / "gsm8k_training"
    shutil.copytree(ROOT / "examples/gsm8k_training", place, ignore=shutil.ignore_patterns(".demo"))
    with running_oracle(model) as oracle:
        config = yaml.safe_load((place / "run.yaml").read_text()) | oracle.config()
        (place / "run.yaml").write_text(yaml.safe_dump(config))
        said = evrun("train", "--config", "run.yaml", "--json", cwd=place)
    assert said.code == 0, said
    run = place / ".demo/gsm8k-training/gsm8k"
    first, second = [json.loads(line) for line in (run / "steps.jsonl").read_text().splitlines()]
    assert first["evolver"]["summary"] == "kept: 0 → 0.25 on 4 tasks"
    assert (first["changed"], second["changed"]) == (True, False)
    assert (run / "checkout/ADAPTER.md").read_text() == f"{RULE}\n"
    assert "| gsm8k-train-0000 | 0 | 1 |" in (run / "step_0001/output/report.md").read_text()
    asked = [messages for messages in oracle.asked if "better" in messages[0]["content"]]
    assert "word problem of grade-school arithmetic" in asked[0][1]["content"]


def test_the_example_s_tasks_are_those_of_the_data_with_its_licence(tmp_path):
    """Sixteen tasks, split in two halves; a wrong copy would train on something else."""
    example = ROOT / "examples/gsm8k_training"
    rows = [json.loads(line) for line in (example / "tasks.jsonl").read_text().splitlines()]
    splits = [(example / name).read_text().split("\n", 1)[1].split() for name in ("train.txt", "test.txt")]
    assert [row["id"] for row in rows] == splits[0] + splits[1]
    assert all(
        set(row) == {"id", "question", "answer"} and row["answer"].lstrip("-").isdigit() for row in rows
    )
    assert "Copyright (c) 2021 OpenAI" in (example / "LICENSE").read_text()
