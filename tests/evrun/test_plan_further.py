"""A plan meets its dataset again: known, new, gone, back, cut short, changed under the reader."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.events import PromptsPlanned, PromptsWithdrawn
from evrun.batch.comparison import compare
from evrun.batch.dataset import BadLine
from evrun.batch.identities import content_id
from evrun.batch.plan import (
    CHUNK_ROWS,
    DatasetChanged,
    Numbering,
    plan,
    scan,
)
from evrun.batch.settings import Settings
from projections import unit_name
from tests.evrun.planner import Planner, lines_of, name, planned_rows, prompts


@pytest.fixture(name="planner")
def _planner(tmp_path):
    return Planner(tmp_path / "d.jsonl")


def test_the_same_dataset_adds_nothing(planner):
    """No event, whatever the order of its rows."""
    planner.first(prompts("a", "b", "b", "c"))
    for rows in (prompts("a", "b", "b", "c"), prompts("b", "c", "a", "b")):
        compared, events = planner.further(rows)
        assert (compared.known, len(compared.new), list(compared.gone), events) == (4, 0, [], [])


def test_a_new_row_in_front_changes_no_known_row(planner):
    """It gets a new batch after the last, though the last was not full; the known keep index and batch."""
    planner.first(prompts("p", "q", "r"))
    before = planner.places()
    compared, _ = planner.further(prompts("n", "p", "q", "r"))
    assert (compared.known, len(compared.new), list(compared.gone)) == (3, 1, [])
    after = planner.places()
    assert after.pop(name("n")) == (3, 3, 1, "pending")
    assert after == before


def test_one_more_of_a_repeated_row_is_one_more_unit(planner):
    """Two equal rows become three: one new, the third occurrence."""
    planner.first(prompts("a", "a"))
    planner.further(prompts("a", "x", "a", "a"))
    assert set(planner.places()) == {name("a"), name("a", 2), name("a", 3), name("x")}


def test_gone_rows_are_withdrawn_and_finished_ones_kept(planner):
    """What is pending is not run; what is finished stays in the outputs."""
    planner.first(prompts("a", "b", "c"))
    planner.end(name("a"))
    compared, events = planner.further(prompts("c"))
    assert list(compared.gone) == [name("a"), name("b")]
    assert [type(event) for event in events] == [PromptsWithdrawn]
    outcomes = [place[3] for place in planner.places().values()]
    assert outcomes == ["kept", "withdrawn", "pending"]


def test_a_row_that_is_back_takes_its_old_place(planner):
    """Gone and back again: the same unit, index and batch."""
    planner.first(prompts("a", "b", "c"))
    before = planner.places()
    planner.further(prompts("c"))
    compared, _ = planner.further(prompts("b", "c", "a"))
    assert (compared.known, compared.rows_new, compared.rows_gone) == (3, 0, 0)
    assert planner.places() == before


def test_a_changed_text_is_a_new_prompt(planner):
    """The old one is gone, the new one in a batch of its own."""
    planner.first(prompts("a", "b"))
    planner.further(prompts("a", "b!"))
    places = planner.places()
    assert places[name("b")][3] == "withdrawn"
    assert places[name("b!")] == (2, 2, 1, "pending")


def test_more_samples_are_planned_for_known_rows_and_fewer_withdrawn(planner):
    """Only the samples that are missing; back again, they take their old places."""
    planner.first(prompts("a", "b"))
    planner.settings = Settings(dataset="d", model="m", batch_size=2, samples=3)
    _, events = planner.further(prompts("a", "b"))
    assert [(row.first_sample, row.samples) for row in events[-1].rows] == [(2, 2), (2, 2)]
    assert planner.state.counts["total"] == 6
    grown = planner.places()
    planner.settings = Settings(dataset="d", model="m", batch_size=2, samples=1)
    planner.further(prompts("a", "b"))
    assert (planner.state.counts["total"], planner.state.counts["withdrawn"]) == (2, 4)
    planner.settings = Settings(dataset="d", model="m", batch_size=2, samples=3)
    planner.further(prompts("a", "b"))
    assert planner.places() == grown


def test_new_samples_and_rows_that_are_back_stand_where_their_row_stands(planner):
    """Index and batch were fixed when the row was first planned; only a new row takes a new place."""
    planner.first(prompts("a", "b", "c"))
    planner.end(name("a"))
    planner.further(prompts("a", "c"))
    planner.settings = Settings(dataset="d", model="m", batch_size=2, samples=2)
    planner.further(prompts("n", "b", "c", "a"))
    places = planner.places()
    fixed = {"a": (0, 1), "b": (1, 1), "c": (2, 2), "n": (3, 3)}
    assert {text: places[name(text)][:2] for text in fixed} == fixed
    assert {text: places[name(text, sample=2)][:2] for text in fixed} == fixed


def test_samples_that_are_missing_in_the_middle_are_planned_alone():
    """A finished sample between two withdrawn ones stays as it is."""
    lines = lines_of(prompts("a"))
    scanned = scan(lines, None)
    active = [(name("a", sample=2), False), (name("a", sample=1), True)]
    compared = compare(scanned.identities, active, 4)
    (event,) = plan(lines, scanned, compared.new, Numbering(0, 1, 0, 10), 4)
    assert [(row.first_sample, row.samples) for row in event.rows] == [(1, 1), (3, 2)]


@pytest.mark.parametrize("samples", [1, 2])
def test_a_planning_cut_short_goes_on_in_the_batch_it_was_filling(tmp_path, samples):
    """As if it had never been cut: same units, same places, and complete."""
    rows = prompts(*map(str, range(CHUNK_ROWS + 50)))
    whole = Planner(tmp_path / "whole.jsonl", batch_size=10, samples=samples)
    whole.first(rows)
    cut = Planner(tmp_path / "cut.jsonl", batch_size=10, samples=samples)
    cut.first(rows, stop_after=1)
    assert not cut.state.plan_complete
    assert cut.state.counts["total"] == CHUNK_ROWS * samples
    cut.further(rows)
    assert cut.state.plan_complete
    assert cut.places() == whole.places()


def test_a_planning_cut_before_its_last_word_is_completed(planner):
    """All rows are there, only the word that it is complete is not: one empty event says it."""
    planner.write(prompts("a"))
    row = planned_rows(prompts("a"))[0]
    planner.apply(PromptsPlanned([row], complete=False))
    compared, events = planner.further(prompts("a"))
    assert not compared.new
    assert events == [PromptsPlanned([], complete=True)]


CHANGES = {
    "a row less": prompts("a", "b"),
    "a row more": prompts("a", "b", "c", "d"),
    "another order": prompts("b", "a", "c"),
    "another text": prompts("a", "b", "C"),
    "another field": [*prompts("a", "b"), {"prompt": "c", "id": 1}],
    "nothing left": [],
}


@pytest.mark.parametrize("second", CHANGES.values(), ids=CHANGES)
def test_a_dataset_that_changes_between_two_readings_is_noticed(second):
    """The planning is never said to be complete, and no row stands under the identity of another."""
    scanned = scan(lines_of(prompts("a", "b", "c")), None)
    seen = []
    with pytest.raises(DatasetChanged, match="changed while it was read"):
        seen.extend(plan(lines_of(second), scanned, None, Numbering(0, 1, 0, 1), 1))
    assert not any(event.complete for event in seen)


@pytest.mark.parametrize("late", [True, False])
def test_a_line_that_is_bad_at_one_reading_alone_is_noticed(late):
    """Nobody allowed it to be left out, or it was said to be; the usable rows are the same."""
    whole = lines_of(prompts("a", "b"))
    damaged = [whole[0], BadLine(9, "no prompt"), whole[1]]
    first, second = (whole, damaged) if late else (damaged, whole)
    with pytest.raises(DatasetChanged):
        list(plan(second, scan(first, None), None, Numbering(0, 1, 0, 1), 1))


def test_no_row_is_planned_under_the_identity_of_another():
    """A file that is put in another order between the readings: no chunk of it goes into the log mixed up."""
    texts = list(map(str, range(3 * CHUNK_ROWS)))
    scanned = scan(lines_of(prompts(*texts)), None)
    seen = []
    with pytest.raises(DatasetChanged):
        seen.extend(plan(lines_of(prompts(*reversed(texts))), scanned, None, Numbering(0, 1, 0, 10), 1))
    for row in (row for event in seen for row in event.rows):
        assert content_id(json.loads(row.row)) == row.content


texts = st.lists(st.text(min_size=1, max_size=3).filter(str.strip), min_size=1, max_size=12)


@given(texts, st.randoms(use_true_random=False), st.integers(1, 3), st.integers(1, 4))
def test_shuffling_never_changes_units(tmp_path_factory, given_texts, chance, samples, batch_size):
    """The same rows in any order: the same units, nothing new, nothing gone, nothing moved."""
    shuffled = list(given_texts)
    chance.shuffle(shuffled)
    planner = Planner(tmp_path_factory.getbasetemp() / "shuffled.jsonl", batch_size, samples)
    planner.first(prompts(*given_texts))
    before = planner.places()
    compared, events = planner.further(prompts(*shuffled))
    assert (len(compared.new), list(compared.gone), events) == (0, [], [])
    assert planner.places() == before
    other = Planner(tmp_path_factory.getbasetemp() / "other.jsonl", batch_size, samples)
    other.first(prompts(*shuffled))
    assert set(other.places()) == set(before)


@given(st.lists(texts, min_size=2, max_size=4))
def test_any_chain_of_datasets_ends_with_exactly_its_rows_and_no_batch_ever_moves(tmp_path_factory, chain):
    """Whatever came before: active are the last dataset's rows, in batches of at most two that never mix."""
    planner = Planner(tmp_path_factory.getbasetemp() / "chain.jsonl")
    planner.first(prompts(*chain[0]))
    fixed = {}
    for rows in chain[1:]:
        fixed |= {unit: place[:3] for unit, place in planner.places().items()}
        planner.further(prompts(*rows))
    places = planner.places()
    assert {unit: places[unit][:3] for unit in fixed} == fixed
    active = sorted(unit for unit, place in places.items() if place[3] == "pending")
    wanted = scan(lines_of(prompts(*chain[-1])), None).identities
    assert active == sorted(unit_name(*identity, 1) for identity in wanted)
    batches = [place[1] for place in places.values()]
    assert all(batches.count(number) <= 2 for number in batches)
