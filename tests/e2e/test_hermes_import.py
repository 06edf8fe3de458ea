"""`evrun import hermes`: directories of every version, whole and damaged, made runs and gone on with."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import Said, evrun
from tests.e2e.reading import load
from tests.endpoint.client import running_endpoint
from tests.hermes import MODEL, contents, line, row, tombstone, write
from tests.runs import rows_of, views_of, write_prompts

P = [f"prompt {number}" for number in range(8)]
GIVEN_ON = ("conversations", "completed", "partial", "api_calls", "toolsets_used", "tool_stats")


def take_in(tmp_path: Path, *more: object) -> Said:
    """Import `old` as the run `r`, and see that every reader can work with what came of it."""
    before = contents(tmp_path / "old")
    made = evrun("import", "hermes", "old", "--run-name", "r", "--json", *more, cwd=tmp_path)
    assert contents(tmp_path / "old") == before
    if made.code != 2:
        for command in (["replay", "r", "--check"], ["verify", "r"], ["audit", "r"], ["stats", "r"]):
            ended = evrun(*command, "--json", cwd=tmp_path)
            assert ended.code == 0, ended
        for kind in ("openai", "parquet"):
            exported = evrun("export", "r", "--format", kind, "-o", f"x.{kind}", cwd=tmp_path)
            assert exported.code == 0, exported
    return made


def resume(tmp_path: Path, *more: object) -> tuple[Said, list[str]]:
    """Go on with the run at an endpoint; how that ended, and which prompts were asked, sorted."""
    with running_endpoint() as endpoint:
        where = ["--run-name", "r", "--resume", "--base-url", endpoint.base_url, "--toolsets", "none"]
        ended = evrun("run", *more, *where, "--json", cwd=tmp_path)
        asked = sorted(request["prompt"] for request in endpoint.requests())
    assert evrun("replay", "r", "--check", cwd=tmp_path).code == 0
    return ended, asked


def not_taken(made: Said) -> list[tuple[str, int | None]]:
    """Where the things stand that an import could not take."""
    return [(item["file"], item["line"]) for item in made.json["not_taken"]]


def kept(tmp_path: Path) -> list[dict[str, Any]]:
    """The rows of the run's trajectories."""
    return rows_of(tmp_path / "data/r/trajectories.jsonl")


# What Hermes wrote in each of its versions about eight prompts, of which the last two were never begun.
VERSIONS: dict[str, tuple[dict[str, list[object]], list[int] | None]] = {
    # Discards leave an index in the checkpoint, and no other trace.
    "A": (
        {"batch_0.jsonl": [row(0, P[0]), row(2, P[2])], "batch_1.jsonl": [row(4, P[4], 1), row(5, P[5], 1)]},
        [0, 1, 2, 3, 4, 5],
    ),
    # Discards leave a tombstone.
    "B": (
        {
            "batch_0.jsonl": [tombstone(1, P[1]), row(0, P[0]), row(2, P[2])],
            "batch_1.jsonl": [row(4, P[4], 1), row(5, P[5], 1), tombstone(3, P[3])],
        },
        [0, 1, 2, 3, 4, 5],
    ),
    # As B, counted from 1, and no checkpoint left; a failed prompt leaves nothing.
    "C": (
        {
            "batch_1.jsonl": [row(0, P[0], 1), tombstone(1, P[1]), row(2, P[2], 1), tombstone(3, P[3])],
            "batch_2.jsonl": [row(4, P[4], 2), row(5, P[5], 2)],
            "trajectories.jsonl": [row(0, P[0], 1), row(2, P[2], 1), row(4, P[4], 2), row(5, P[5], 2)],
        },
        None,
    ),
    # Only what was merged is left.
    "merged": (
        {"trajectories.jsonl": [row(n, P[n], n // 4) for n in (0, 2, 4, 5)]},
        [0, 1, 2, 3, 4, 5],
    ),
}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_directory_of_any_version_is_taken_in_and_only_what_is_not_done_is_run(
    tmp_path: Path, version: str
) -> None:
    """Rows come out as they were; with the dataset nothing that Hermes completed is asked again."""
    files, done = VERSIONS[version]
    write(tmp_path / "old", files, done)
    write_prompts(tmp_path / "d.jsonl", P)
    made = take_in(tmp_path, "--dataset", "d.jsonl")
    assert (made.code, not_taken(made)) == (0, [])
    assert (made.json["counts"]["kept"], made.json["counts"]["discarded"]) == (4, 2)
    given = {n: row(n, P[n]) for n in (0, 2, 4, 5)}
    for found in kept(tmp_path):
        assert {name: found[name] for name in GIVEN_ON} == {
            name: given[found["prompt_index"]][name] for name in GIVEN_ON
        }
        assert (found["cost_usd"], found["duration_s"], found["finish_reason"]) == (None, None, None)
        assert found["metadata"]["timestamp"] == "2031-05-04T09:08:07.000123"
        assert found["metadata"]["model"] == MODEL
    assert [found["metadata"]["batch_num"] for found in kept(tmp_path)] == [1, 1, 2, 2]
    ended, asked = resume(tmp_path)
    assert (ended.code, asked) == (0, P[6:])
    assert ended.json["counts"]["kept"] == 6
    assert [found["prompt_index"] for found in kept(tmp_path)] == [0, 2, 4, 5, 6, 7]


@pytest.mark.parametrize("version", ["B", "C"])
def test_without_the_dataset_rows_are_known_by_their_prompt_when_it_comes(
    tmp_path: Path, version: str
) -> None:
    """Import first, the dataset with the resume: the same two prompts are asked."""
    files, done = VERSIONS[version]
    write(tmp_path / "old", files, done)
    assert take_in(tmp_path).code == 0
    write_prompts(tmp_path / "d.jsonl", [*reversed(P)])
    ended, asked = resume(tmp_path, "d.jsonl")
    assert (ended.code, asked) == (0, P[6:])
    assert evrun("status", "r", "--json", cwd=tmp_path).json["counts"]["total"] == 8


def test_an_index_of_the_checkpoint_means_nothing_without_the_dataset(tmp_path: Path) -> None:
    """What has no row and no text cannot be taken: it is said, exit 3, and the prompts run again."""
    write(tmp_path / "old", *VERSIONS["A"])
    made = take_in(tmp_path)
    assert (made.code, not_taken(made)) == (3, [("checkpoint.json", None)])
    assert "--dataset" in made.json["not_taken"][0]["what"]
    write_prompts(tmp_path / "d.jsonl", P)
    assert resume(tmp_path, "d.jsonl")[1] == [P[1], P[3], P[6], P[7]]


def test_what_became_of_a_completed_prompt_without_a_row_is_not_made_up(tmp_path: Path) -> None:
    """It is set aside under a name of its own, and `--retry-discarded` runs it."""
    write(tmp_path / "old", *VERSIONS["A"])
    write_prompts(tmp_path / "d.jsonl", P)
    take_in(tmp_path, "--dataset", "d.jsonl")
    aside = rows_of(tmp_path / "data/r/discarded.jsonl")
    assert [(item["reason"], item["conversations"][0]["value"]) for item in aside] == [
        ("no_row_in_hermes", P[1]),
        ("no_row_in_hermes", P[3]),
    ]
    assert {item["api_calls"] for item in aside} == {None}
    assert resume(tmp_path, "--retry-discarded")[1] == [P[1], P[3], P[6], P[7]]


def test_a_tombstone_is_a_discard_with_its_reason_and_is_never_asked_again(tmp_path: Path) -> None:
    """Even `--keep-all` cannot bring back a conversation that Hermes threw away; nothing is asked for it."""
    write(tmp_path / "old", {"batch_0.jsonl": [tombstone(0, "  padded  "), row(1, P[1])]})
    write_prompts(tmp_path / "d.jsonl", ["  padded  ", P[1]])
    assert take_in(tmp_path, "--dataset", "d.jsonl").code == 0
    ended, asked = resume(tmp_path, "--keep-all")
    assert (ended.code, asked) == (0, [])
    assert evrun("stats", "r", "--json", cwd=tmp_path).json["filtered_by_reason"] == {"no_reasoning": 1}


def test_what_cannot_be_read_is_listed_and_everything_else_is_taken(tmp_path: Path) -> None:
    """A torn end cut inside a letter, junk, other JSON, no prompt: each with its place; all are run again."""
    torn = line(row(3, P[3]) | {"note": "é"}).rstrip(b"\n}")[:-2]
    files: dict[str, list[object]] = {
        "batch_0.jsonl": [row(0, P[0]), b"junk\n", b"[1, 2]\n", b"\n", row(1, P[1]), torn],
        "batch_1.jsonl": [line(row(4, P[4], 1)), line(row(5, P[5], 1)).rstrip(b"\n")],
        "batch_2.jsonl": [{"prompt_index": 6, "conversations": []}, b'{"prompt_index": 7}\n', b"\xff\n"],
    }
    write(tmp_path / "old", files, done=[0, 1, 3, 4, 5])
    (tmp_path / "old/statistics.json").write_text("{}")
    write_prompts(tmp_path / "d.jsonl", P)
    made = take_in(tmp_path, "--dataset", "d.jsonl")
    assert made.code == 3
    assert not_taken(made) == [
        ("batch_0.jsonl", 2), ("batch_0.jsonl", 3), ("batch_0.jsonl", 6),
        ("batch_2.jsonl", 1), ("batch_2.jsonl", 2), ("batch_2.jsonl", 3),
    ]  # fmt: skip
    assert "half a line" in made.json["not_taken"][2]["what"]
    assert any("statistics.json" in note for note in made.json["notes"])
    assert made.json["counts"]["kept"] == 4
    assert resume(tmp_path)[1] == [P[2], P[3], P[6], P[7]]


def test_rows_that_are_there_twice_are_taken_once_and_equal_prompts_each(tmp_path: Path) -> None:
    """A copied line is no second row, another trajectory of the same row is named, equal prompts are two."""
    other = row(0, P[0]) | {"api_calls": 9}
    files: dict[str, list[object]] = {
        "batch_0.jsonl": [row(0, P[0]), row(0, P[0]), other, row(1, P[0]), row(2, P[2], failed=True)],
        "batch_1.jsonl": [row(2, P[2], 1), row(3, P[3], 1, failed=True)],
    }
    write(tmp_path / "old", files)
    made = take_in(tmp_path)
    assert (made.code, not_taken(made), made.json["copies"]) == (3, [("batch_0.jsonl", 3)], 1)
    assert made.json["counts"] | {"pending": 0} == {
        "total": 4, "kept": 3, "discarded": 0, "failed": 1, "open": 0, "pending": 0,
    }  # fmt: skip
    write_prompts(tmp_path / "d.jsonl", [P[0], P[0], P[0], P[2], P[3]])
    assert resume(tmp_path, "d.jsonl")[1] == [P[0]]
    assert resume(tmp_path, "--retry-failed")[1] == [P[3]]


def test_rows_without_an_index_are_each_taken(tmp_path: Path) -> None:
    """Other runners of the family write none: equal prompts are then told apart by their answers alone."""
    bare = [
        {name: value for name, value in row(0, P[0], api_calls=n).items() if name != "prompt_index"}
        for n in (1, 2)
    ]
    write(tmp_path / "old", {"batch_0.jsonl": [*bare, row(5, P[1])]})
    assert take_in(tmp_path).code == 0
    assert [(item["prompt_index"], item["api_calls"]) for item in kept(tmp_path)] == [(6, 1), (7, 2), (5, 2)]


def test_rows_with_an_image_or_fields_of_their_own_are_found_by_their_prompt(tmp_path: Path) -> None:
    """Hermes's rows do not say what else the dataset's row held; given the dataset, that is known again."""
    write(tmp_path / "old", {"batch_0.jsonl": [row(1, P[1]), row(0, P[0])]})
    rows = [{"prompt": P[0], "cwd": "/srv", "level": 3}, {"prompt": P[1]}, {"prompt": P[2]}]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(item) + "\n" for item in rows))
    assert take_in(tmp_path, "--dataset", "d.jsonl").code == 0
    assert {item["metadata"].get("level") for item in kept(tmp_path)} == {3, None}
    assert resume(tmp_path, "d.jsonl")[1] == [P[2]]


def test_an_index_counts_the_rows_that_hermes_took_and_not_lines(tmp_path: Path) -> None:
    """A bad line, a row without a prompt, a null prompt: the checkpoint's 2 is the line after them."""
    write(tmp_path / "old", {"batch_0.jsonl": [row(0, P[0])]}, done=[0, 2])
    lines = [{"prompt": P[0]}, {"text": "x"}, {"prompt": None}, {"prompt": P[1]}, {"prompt": P[2]}]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(item) + "\n" for item in lines) + "junk\n")
    made = take_in(tmp_path, "--dataset", "d.jsonl")
    assert (made.code, not_taken(made)) == (3, [("d.jsonl", 2), ("d.jsonl", 3), ("d.jsonl", 6)])
    (aside,) = rows_of(tmp_path / "data/r/discarded.jsonl")
    assert aside["conversations"] == [{"from": "human", "value": P[1]}]
    assert resume(tmp_path)[1] == [P[2]]


def test_a_packed_dataset_counts_as_well(tmp_path: Path) -> None:
    """Hermes reads plain files only, so somebody packed it since: rows and indices are the same."""
    write(tmp_path / "old", {"batch_0.jsonl": [row(0, P[0])]}, done=[0, 1])
    packed = gzip.compress("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in P[:3]).encode())
    (tmp_path / "d.jsonl.gz").write_bytes(packed)
    counts = take_in(tmp_path, "--dataset", "d.jsonl.gz").json["counts"]
    assert (counts["kept"], counts["discarded"], counts["pending"]) == (1, 1, 1)


def test_imports_that_cannot_be_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    """A used name, no such directory, nothing usable, the directory itself: exit 2, nothing is changed."""
    write(tmp_path / "old", {"batch_0.jsonl": [b"junk\n"]})
    write(tmp_path / "data/hermes", {"batch_0.jsonl": [row(0, P[0])]}, done=[0])
    (tmp_path / "empty").mkdir()
    before = contents(tmp_path / "data/hermes")
    refused = [
        (["old"], "nothing in it can be used"),
        (["nowhere"], "nowhere"),
        (["empty"], "expected batch_<n>.jsonl"),
        (["data/hermes", "--batch-size", 0], "--batch-size"),
        (["data/hermes", "--dataset", "none.jsonl"], "none.jsonl"),
    ]
    for arguments, said in refused:
        made = evrun("import", "hermes", *arguments, "--run-name", "r", cwd=tmp_path)
        assert (made.code, said in made.err) == (2, True), made
        assert not (tmp_path / "data/r").exists()
    itself = evrun("import", "hermes", "data/hermes", "--run-name", "hermes", cwd=tmp_path)
    assert (itself.code, "not to be changed" in itself.err) == (2, True), itself
    run = evrun("run", "--run-name", "hermes", "--resume", cwd=tmp_path)
    assert (run.code, "evrun import hermes" in run.err) == (2, True), run
    assert contents(tmp_path / "data/hermes") == before
    assert evrun("import", "hermes", "data/hermes", "--run-name", "r", cwd=tmp_path).code == 0
    views = views_of(tmp_path / "data/r")
    assert evrun("import", "hermes", "data/hermes", "--run-name", "r", cwd=tmp_path).code == 2
    assert evrun("import", "openai", "data/hermes", "--run-name", "s", cwd=tmp_path).code == 2
    assert views_of(tmp_path / "data/r") == views


def test_an_imported_run_pays_nothing_and_says_which_settings_it_knows(tmp_path: Path) -> None:
    """No call, nothing settled; the model is known, the endpoint is asked for by the ordinary message."""
    write(tmp_path / "old", {"batch_0.jsonl": [row(0, P[0])]})
    write_prompts(tmp_path / "d.jsonl", P[:2])
    take_in(tmp_path, "--dataset", "d.jsonl")
    audit = evrun("audit", "r", "--json", cwd=tmp_path).json
    assert audit["calls"] == dict.fromkeys(audit["calls"], 0)
    assert (audit["settled_usd"], audit["in_doubt_usd"]) == ("0.00", "0.00")
    refused = evrun("run", "--run-name", "r", "--resume", cwd=tmp_path)
    assert (refused.code, "--base-url" in refused.err) == (2, True), refused
    ended, asked = resume(tmp_path)
    assert (ended.code, asked) == (0, [P[1]])
    assert [item["metadata"]["model"] for item in kept(tmp_path)] == [MODEL, MODEL]


def test_a_model_that_no_row_names_is_asked_of_the_endpoint(tmp_path: Path) -> None:
    """Rows without metadata: the endpoint's only model is used and recorded."""
    bare = {name: value for name, value in row(0, P[0]).items() if name != "metadata"}
    write(tmp_path / "old", {"batch_0.jsonl": [bare]})
    write_prompts(tmp_path / "d.jsonl", P[:2])
    take_in(tmp_path, "--dataset", "d.jsonl")
    ended, asked = resume(tmp_path)
    assert (ended.code, asked) == (0, [P[1]])
    assert [item["metadata"]["model"] for item in kept(tmp_path)] == [None, "test-model"]


def test_imported_rows_and_ours_have_one_schema(tmp_path: Path) -> None:
    """Gone on with, with tools of ours: every row has every tool and every field; imported numbers stay."""
    write(tmp_path / "old", {"batch_0.jsonl": [row(0, P[0]), tombstone(1, P[1])]})
    rows = [{"prompt": P[0], "level": 1}, {"prompt": P[1], "level": "hard"}, {"prompt": P[2], "tags": []}]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(item) + "\n" for item in rows))
    assert take_in(tmp_path, "--dataset", "d.jsonl").code == 0
    call = {"tool_calls": [{"name": "list_files", "arguments": {}}]}
    with running_endpoint(rules=[{"match": {"turn": 1}, "then": call}]) as endpoint:
        ended = evrun(
            "run", "--run-name", "r", "--resume", "--base-url", endpoint.base_url, "--toolsets", "file",
            cwd=tmp_path,
        )  # fmt: skip
    assert ended.code == 0, ended
    assert evrun("replay", "r", "--check", cwd=tmp_path).code == 0
    first, second = kept(tmp_path)
    for place in ("tool_stats", "tool_error_counts", "metadata", "usage"):
        assert set(first[place]) == set(second[place])
    assert list(first) == list(second)
    assert first["tool_stats"] | row(0, P[0])["tool_stats"] == first["tool_stats"]
    assert second["tool_stats"]["list_files"]["count"] == 1
    loaded = load(tmp_path, tmp_path / "data/r/trajectories.jsonl")
    assert loaded == [2, sorted(first), [0, 2]]
