"""Real programs as agents of a run, killed with the runner in the middle of their work, and resumed."""

import json
import sys
from collections import Counter

import pytest

from eventlog.events import AttemptSuperseded
from tests.e2e.case import Case, hang
from tests.endpoint.client import running_endpoint
from tests.runs import evrun

from . import PROGRAMS, PROMPT


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_real_program_is_killed_and_pays_only_for_what_is_new(name, tmp_path):
    """It never heard of evrun; it does its work again, and no answered call is asked of anybody again."""
    program = PROGRAMS[name]
    rules = [hang(turn=2), *program.rules]
    with running_endpoint(rules=rules, models="test-model") as endpoint:
        case = Case(tmp_path, endpoint, "--agent", f"command:{program.command}", "--keep-all")
        case.write(PROMPT)
        case.killed_at(1)
        ended = case.resume()
        assert (ended.code, ended.json["counts"]["kept"]) == (0, 1), ended
        asked = Counter(entry["digest"] for entry in endpoint.requests())
        assert sorted(asked.values()) == [1] * (program.calls - 1) + [2]
        assert case.events(AttemptSuperseded) == []
    (row,) = case.rows()
    assert row["api_calls"] == program.calls
    assert sum(stats["count"] for stats in row["tool_stats"].values()) >= program.calls - 1
    assert [turn["from"] for turn in row["conversations"]].count("gpt") == program.calls
    (made,) = case.run_directory.glob(f"work/*/{program.made}")
    assert made.read_text() == program.holds
    assert evrun("replay", "r", "--check", cwd=tmp_path).code == 0


EMBEDS = """
import json, os, sys, urllib.request


def ask(path, body):
    headers = {"content-type": "application/json", "authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + path, json.dumps(body).encode(), headers)
    return json.load(urllib.request.urlopen(request))


prompt, model = sys.stdin.read(), os.environ["OPENAI_MODEL"]
vector = ask("/embeddings", {"model": "small-embedder", "input": [prompt, "other"]})["data"][0]["embedding"]
first = ask("/responses", {"model": model, "instructions": "be brief", "input": prompt})
more = {"model": model, "previous_response_id": first["id"], "input": f"about {vector[0]}"}
second = ask("/responses", more)
assert second["status"] == "completed", second
"""


def test_responses_and_embeddings_are_recorded_priced_and_in_the_trajectory(tmp_path):
    """Each call by its own model's price; the conversation goes on over an id, without embeddings."""
    (tmp_path / "embeds.py").write_text(EMBEDS)
    with running_endpoint() as endpoint:
        options = ("--keep-all", "--price", "m=1,2", "--price", "small-embedder=0.5,0")
        case = Case(tmp_path, endpoint, "--agent", f"command:{sys.executable} embeds.py", *options)
        case.write("one two three")
        first = case.first("--max-tokens", 50, "--budget-usd", "1")
        assert first.code == 0, first
        paths = [entry["path"] for entry in endpoint.requests()]
        assert paths == ["/v1/embeddings", "/v1/responses", "/v1/responses"]
    (row,) = case.rows()
    turns = [(turn["from"], turn["value"]) for turn in row["conversations"][1:]]
    assert [name for name, _ in turns] == ["human", "gpt", "human", "gpt"]
    assert turns[0] == ("human", "one two three")
    audit = evrun("audit", "r", "--json", cwd=tmp_path).json
    models = {one["model"]: one for one in audit["by_model"]}
    assert models.keys() == {"m", "small-embedder"}
    assert (models["small-embedder"]["calls"], models["small-embedder"]["settled_usd"]) == (1, "0.000002")
    assert json.loads((case.run_directory / "statistics.json").read_text())["cost"]["unpriced_calls"] == 0
