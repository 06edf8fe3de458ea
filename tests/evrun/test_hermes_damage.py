"""Importing a Hermes directory, whatever happened to its files: what can be read is taken."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.storage import LogReader
from evrun.batch.identities import content_id
from evrun.errors import UsageFault
from evrun.hermes import Import, Imported, import_hermes
from projections import check, imported_prompt
from tests.hermes import contents, line, row, tombstone, write
from tests.runs import rows_of, write_prompts

KEPT = "data/r/trajectories.jsonl"
PROMPTS = ["one", "two", " two", "drei\u2028 é", "4 <tool_call>", "five"]


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory for one example."""
    directory = Path(tempfile.mkdtemp())
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


@st.composite
def lines(draw: st.DrawFn) -> object:
    """A line of a batch file: a trajectory, a tombstone, a failure, something else."""
    index, prompt = draw(st.integers(0, 9)), draw(st.sampled_from(PROMPTS))
    kind = draw(st.sampled_from(["row", "row", "row", "tombstone", "failed", "other", "junk"]))
    if kind == "row":
        return row(index, prompt, draw(st.integers(0, 3)), api_calls=draw(st.integers(0, 5)))
    if kind == "tombstone":
        return tombstone(index, prompt)
    if kind == "failed":
        return row(index, prompt, failed=True)
    if kind == "other":
        return draw(st.recursive(st.none() | st.integers() | st.text(max_size=5), st.lists, max_leaves=4))
    return draw(st.binary(max_size=20)) + b"\n"


NAMES = ["batch_0.jsonl", "batch_1.jsonl", "batch_10.jsonl", "trajectories.jsonl"]
DIRECTORIES = st.dictionaries(st.sampled_from(NAMES), st.lists(lines(), max_size=6), min_size=1)
INDICES = st.none() | st.lists(st.integers(0, 12), max_size=8)


def taken(directory: Path, dataset: Path | None = None) -> Imported | None:
    """The import of `old` as `data/r`; null where nothing could be taken, and nothing was made."""
    before = contents(directory / "old")
    asked = Import(
        source=directory / "old", run_name="r", output_dir=directory / "data", dataset=dataset, batch_size=2
    )
    try:
        made = import_hermes(asked, lambda _: None)
    except UsageFault:
        assert not (directory / "data/r").exists()
        return None
    finally:
        assert contents(directory / "old") == before
    assert made.state.batch.unexplained == 0
    assert made.state.ledger.total.calls == 0
    with LogReader.open(directory / "data/r/log") as reader:
        assert [view.path for view in check(reader, directory / "data/r") if not view.same] == []
    return made


def usable(data: bytes) -> list[Any]:
    """The rows of a damaged file that a JSON reader still takes for trajectories."""
    found = []
    for text in data.split(b"\n"):
        try:
            value = json.loads(text.decode())
        except ValueError:
            continue
        turns = value.get("conversations") if isinstance(value, dict) else None
        whole = isinstance(turns, list) and all(isinstance(turn, dict) and is_turn(turn) for turn in turns)
        if turns and whole and imported_prompt(value) is not None:
            found.append(value)
    return found


def is_turn(turn):
    """Whether a turn has what a turn of a trajectory has."""
    return isinstance(turn.get("from"), str) and isinstance(turn.get("value"), str)


@given(DIRECTORIES, INDICES, st.booleans())
@settings(max_examples=40, deadline=None)
def test_any_directory_is_taken_as_far_as_it_can_be_and_never_changed(files, done, with_dataset):
    """Whatever lines there are, in whatever order and number: a run whose views and counts agree, or none."""
    with scratch() as directory:
        write(directory / "old", files, done)
        dataset = write_prompts(directory / "d.jsonl", PROMPTS) if with_dataset else None
        made = taken(directory, dataset)
        if made is None:
            return
        counts = made.state.batch.counts
        assert counts["total"] == sum(counts[name] for name in ("kept", "discarded", "failed", "pending"))
        assert len(rows_of(directory / KEPT)) == counts["kept"]
        indices = [unit.index for unit in made.state.batch.units.values()]
        assert len(set(indices)) == len(indices)


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_a_file_that_is_damaged_anywhere_loses_the_lines_that_were_hit_and_no_others(data):
    """Cut, overwritten or stuffed at any byte: each trajectory that is still one is in the run, as it was."""
    rows = [row(number, prompt, number // 3) for number, prompt in enumerate(PROMPTS)]
    whole = b"".join(map(line, rows))
    at = data.draw(st.integers(0, len(whole)))
    damage = data.draw(st.sampled_from([b"", b"\n", b"\xc3", b"\x00\x00\x00", b'"', b"}\n{"]))
    rest = data.draw(st.sampled_from([0, len(damage), 1]))
    damaged = whole[:at] + damage + (whole[at + rest :] if rest or data.draw(st.booleans()) else b"")
    with scratch() as directory:
        write(directory / "old", {"batch_0.jsonl": [damaged]})
        made = taken(directory)
        expected = usable(damaged)
        if made is None:
            assert expected == []
            return
        found = rows_of(directory / KEPT)
        assert [item["conversations"] for item in found] == [item["conversations"] for item in expected]
        assert [item["tool_stats"] for item in found] == [item.get("tool_stats", {}) for item in expected]
        hit = sum(bool(text.strip()) for text in damaged.split(b"\n")) - len(expected)
        assert len(made.unread) == hit


@given(st.permutations(range(len(PROMPTS))), st.integers(0, len(PROMPTS)))
@settings(max_examples=30, deadline=None)
def test_with_the_dataset_in_any_order_each_outcome_finds_its_row(order, count):
    """Indices may be stale: rows are known by their text, and what is left is exactly what had no outcome."""
    with scratch() as directory:
        outcomes = [row(number, PROMPTS[number]) for number in range(count)]
        write(directory / "old", {"batch_0.jsonl": [*outcomes, tombstone(99, "elsewhere")]})
        dataset = write_prompts(directory / "d.jsonl", [PROMPTS[number] for number in order])
        made = taken(directory, dataset)
        assert made is not None
        batch = made.state.batch
        assert (batch.counts["kept"], batch.counts["pending"]) == (count, len(PROMPTS) - count)
        assert batch.counts["total"] == len(PROMPTS) + 1
        ids = {item["prompt_id"]: item["conversations"][1]["value"] for item in rows_of(directory / KEPT)}
        expected = {f"{content_id({'prompt': text}).hex()}#1": text for text in PROMPTS[:count]}
        assert ids == expected
