"""A run that is archived while it works, dies with its machine, and goes on from the archive elsewhere."""

import shutil

from tests.endpoint.client import running_endpoint
from tests.runs import evrun, finish, kill, rows_of, start, wait_until, write_prompts

PROMPTS = [f"Question {number}" for number in range(60)]


def words(endpoint, *more):
    """A run of these prompts against the endpoint."""
    return ["run", "--run-name", "far", "--model", "m", "--base-url", endpoint.base_url, "--keep-all", *more]


def events(cwd, run):
    """The run's events, a line each."""
    return evrun("events", run, "--json", cwd=cwd).stdout.splitlines()


def test_a_run_goes_on_from_its_archive_on_another_machine(tmp_path):
    """Archived in full flight, killed, its directory lost: restored and resumed, every prompt ends once."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    write_prompts(here / "p.jsonl", PROMPTS)
    with running_endpoint(latency_ms=150) as endpoint:
        dataset = ("--dataset-file", "p.jsonl", "--concurrency", "4")
        process = start(*words(endpoint, *dataset), cwd=here, OPENAI_API_KEY="k")
        wait_until(lambda: endpoint.totals()["requests"] >= 12, "a dozen answers")
        said = evrun("archive", "far", "../kept", "--json", cwd=here)
        assert said.code == 0, said
        kill(process)
        lost = events(here, "far")
        shutil.rmtree(here / "data")
        kept = events(tmp_path, "kept")
        assert 0 < said.json["sequence"] == len(kept) <= len(lost)
        assert kept == lost[: len(kept)]
        assert evrun("archive", "--restore", "../kept", "data/far", cwd=there).code == 0
        done = finish(start(*words(endpoint, "--resume"), cwd=there, OPENAI_API_KEY="k"))
        assert done.code == 0, done
    rows = rows_of(there / "data/far/trajectories.jsonl")
    assert sorted(row["prompt_index"] for row in rows) == list(range(len(PROMPTS)))
    assert events(there, "far")[: len(kept)] == kept
    assert evrun("replay", "far", "--check", cwd=there).code == 0
    again = evrun("archive", "far", "../kept", "--json", cwd=there)
    assert (again.code, again.json["sequence"] > len(kept)) == (0, True)


def test_a_run_is_archived_again_and_again_while_it_works(tmp_path):
    """Each archiving is whole, each begins where the one before it ended, and the run does not notice."""
    write_prompts(tmp_path / "p.jsonl", PROMPTS)
    reached = []
    with running_endpoint(latency_ms=50) as endpoint:
        dataset = ("--dataset-file", "p.jsonl", "--concurrency", "4")
        process = start(*words(endpoint, *dataset), cwd=tmp_path, OPENAI_API_KEY="k")
        wait_until(lambda: endpoint.totals()["requests"] >= 4, "the first answers")
        while process.poll() is None:
            said = evrun("archive", "far", "kept", "--json", cwd=tmp_path)
            assert said.code == 0, said
            reached.append(said.json["sequence"])
            assert evrun("verify", "kept", "--json", cwd=tmp_path).json["sequence"] == reached[-1]
        assert finish(process).code == 0
    assert reached == sorted(reached)
    last = evrun("archive", "far", "kept", "--json", cwd=tmp_path).json
    assert last["sequence"] == len(events(tmp_path, "far"))
    assert evrun("verify", "kept", "--json", cwd=tmp_path).json["class"] == "clean"
