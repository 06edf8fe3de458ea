"""The first plan: identities, units, batches, chunks."""

import json

import pytest

from eventlog.events import PromptsPlanned, RowsSkipped
from evrun.batch.dataset import BadLine
from evrun.batch.identities import content_id
from evrun.batch.opening import first_plan, scan_dataset
from evrun.batch.plan import (
    CHUNK_BYTES,
    CHUNK_ROWS,
    COMMIT_BYTES,
    COMMIT_CHUNKS,
    Numbering,
    commits_of,
    plan,
    scan,
)
from evrun.batch.settings import Settings
from evrun.errors import DatasetFault, UsageFault
from tests.evrun.planner import Planner, lines_of, name, planned_rows, prompts


@pytest.fixture(name="planner")
def _planner(tmp_path):
    return Planner(tmp_path / "d.jsonl")


SAME = [
    ({"prompt": "a"}, {"id": 7, "metadata": {"x": 1}, "prompt": "a"}),
    ({"prompt": "a"}, {"prompt": "a", "image": None, "cwd": None}),
    ({"prompt": "a", "image": "i"}, {"prompt": "a", "docker_image": "i"}),
    ({"prompt": "a", "image": "i"}, {"prompt": "a", "image": None, "docker_image": "i"}),
    (
        {"messages": [{"role": "user", "content": "a"}]},
        {"conversations": [{"content": "a", "role": "user"}], "id": 1},
    ),
]
DIFFERENT = [
    ({"prompt": "a"}, {"prompt": "a "}),
    ({"prompt": "a"}, {"prompt": "A"}),
    ({"prompt": "\u00e9"}, {"prompt": "e\u0301"}),
    ({"prompt": "a\n"}, {"prompt": "a\r\n"}),
    ({"prompt": "\ud800"}, {"prompt": "\ufffd"}),
    ({"prompt": "a"}, {"prompt": "a", "image": ""}),
    ({"prompt": "a", "image": "i"}, {"prompt": "a", "image": "j"}),
    ({"prompt": "a", "image": "x"}, {"prompt": "a", "cwd": "x"}),
    ({"prompt": "a", "cwd": "bc"}, {"prompt": "ab", "cwd": "c"}),
    ({"prompt": "a1:b"}, {"prompt": "a", "image": "b"}),
    (
        {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "a"}]},
        {"messages": [{"role": "user", "content": "a"}]},
    ),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_what_does_not_belong_to_the_prompt_does_not_change_its_identity(one, other):
    """Ids, metadata, the order of fields, and another spelling of the same field."""
    assert content_id(one) == content_id(other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_a_prompt_is_its_exact_text_with_image_and_directory(one, other):
    """One letter more, less or in another place is another prompt."""
    assert content_id(one) != content_id(other)


def test_an_identity_stays_what_it_was():
    """Logs hold it: this value may never change."""
    assert (
        content_id({"prompt": "2+2", "image": "debian", "cwd": "/w"}).hex()
        == "beca3bc89bda4fbde61c519f640f8725"
    )


def test_equal_rows_are_units_of_their_own():
    """Three equal rows are three units, numbered by occurrence."""
    rows = planned_rows(prompts("die", "x", "die", "die"))
    assert [row.occurrence for row in rows] == [1, 1, 2, 3]
    assert len({(row.content, row.occurrence) for row in rows}) == 4


def test_rows_fill_batches_in_order_from_one():
    """Five rows by two are three batches; indices are places, and each row is kept as it was."""
    rows = planned_rows(prompts(*"abcde"))
    assert [row.batch for row in rows] == [1, 1, 2, 2, 3]
    assert [row.index for row in rows] == [0, 1, 2, 3, 4]
    assert [json.loads(row.row)["prompt"] for row in rows] == list("abcde")


def test_samples_are_units_of_one_row_in_its_batch(planner):
    """Each sample is a unit; the batch size counts rows."""
    planner.settings = Settings(dataset="d", model="m", batch_size=2, samples=3)
    planner.first(prompts("a", "b", "c"))
    assert planner.state.counts["total"] == 9
    assert planner.places()[name("c", sample=3)] == (2, 2, 3, "pending")


def test_a_plan_is_written_in_bounded_chunks():
    """By rows and by bytes; only the last says that it is complete, and a large row is a chunk of its own."""
    many = lines_of(prompts(*map(str, range(2 * CHUNK_ROWS + 1))))
    events = list(plan(many, scan(many, None), None, Numbering(0, 1, 0, 10), 1))
    assert [len(event.rows) for event in events] == [CHUNK_ROWS, CHUNK_ROWS, 1]
    assert [event.complete for event in events] == [False, False, True]
    large = lines_of(prompts("a", "x" * CHUNK_BYTES, "b", "c"))
    events = list(plan(large, scan(large, None), None, Numbering(0, 1, 0, 10), 1))
    assert [len(event.rows) for event in events] == [1, 1, 2]


def test_a_commit_takes_many_chunks_and_no_more_than_a_bound():
    """By chunks and by bytes; no event is left out or moved, and a large row is a commit of its own."""
    events = [PromptsPlanned([], complete=False) for _ in range(2 * COMMIT_CHUNKS + 1)]
    assert [len(commit) for commit in commits_of(events)] == [COMMIT_CHUNKS, COMMIT_CHUNKS, 1]
    large = lines_of(prompts("a", "x" * COMMIT_BYTES, *("y" * (CHUNK_BYTES // 2) for _ in range(12)), "z"))
    events = list(plan(large, scan(large, None), None, Numbering(0, 1, 0, 10), 1))
    commits = list(commits_of(events))
    assert [event for commit in commits for event in commit] == events
    sizes = [sum(len(row.row) for event in commit for row in event.rows) for commit in commits]
    assert all(size <= COMMIT_BYTES or len(commits[n]) == 1 for n, size in enumerate(sizes))
    assert len(commits) < len(events)
    assert list(commits_of([])) == []


def test_max_samples_takes_the_first_usable_rows():
    """Bad lines do not count, and later ones are complained about all the same."""
    lines = [BadLine(1, "x"), *lines_of(prompts("a", "b", "c")), BadLine(9, "y")]
    found = scan(lines, 2)
    assert len(found.identities) == 2
    assert [line for line, _ in found.bad] == [1, 9]
    skipped, planned = plan(lines, found, None, Numbering(0, 1, 0, 10), 1)
    assert skipped == RowsSkipped([(1, "x"), (9, "y")])
    rows = planned.rows
    assert [json.loads(row.row)["prompt"] for row in rows] == ["a", "b"]


def test_bad_rows_are_refused_or_recorded(tmp_path):
    """All of them in one error; with leave to skip, on record before the plan."""
    path = tmp_path / "d.jsonl"
    path.write_bytes(b'{"prompt": "a"}\n{"prompt": 7}\n')
    settings = Settings(dataset="d", model="m")
    with pytest.raises(DatasetFault, match="line 2: prompt is not a string"):
        scan_dataset(path, settings, skip_bad_rows=False)
    scanned = scan_dataset(path, settings, skip_bad_rows=True)
    skipped, planned = first_plan(path, settings, scanned)
    assert isinstance(skipped, RowsSkipped)
    assert skipped.lines[0][0] == 2
    assert (len(planned.rows), planned.complete) == (1, True)


def test_many_lines_that_are_left_out_are_never_held_together():
    """The scan counts them; they go on record in bounded pieces, all of them before the plan is complete."""
    bad = [BadLine(number, "no prompt") for number in range(1, 2 * CHUNK_ROWS + 2)]
    lines = [*bad[: CHUNK_ROWS + 1], *lines_of(prompts("a")), *bad[CHUNK_ROWS + 1 :]]
    scanned = scan(lines, None, skip_bad_rows=True)
    assert (scanned.bad, scanned.skipped) == ([], len(bad))
    *skipped, planned = plan(lines, scanned, None, Numbering(0, 1, 0, 10), 1)
    assert [len(event.lines) for event in skipped] == [CHUNK_ROWS, CHUNK_ROWS, 1]
    assert [line for event in skipped for line in event.lines] == bad
    assert [row.index for row in planned.rows] == [0]


@pytest.mark.parametrize("data", [b"", b"\n\n", b"3\n"])
def test_a_dataset_without_a_usable_row_is_refused(tmp_path, data):
    """Nothing to do is an error, not a run that is done."""
    path = tmp_path / "d.jsonl"
    path.write_bytes(data)
    with pytest.raises(UsageFault, match="no usable row"):
        scan_dataset(path, Settings(dataset="d", model="m"), skip_bad_rows=True)
