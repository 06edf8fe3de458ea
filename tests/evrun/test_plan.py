"""The plan: units are known by their content, batches never move, and a changed file is noticed."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventlog.events import (
    Counts,
    PromptsPlanned,
    PromptStarted,
    PromptsWithdrawn,
    Recorded,
    RowsSkipped,
    RunStarted,
    TrajectoryCompleted,
)
from evrun.batch.dataset import BadLine, Row
from evrun.batch.opening import comparison, first_plan, further_plan, scan_dataset
from evrun.batch.plan import (
    CHUNK_BYTES,
    CHUNK_ROWS,
    DatasetChanged,
    Numbering,
    compare,
    content_id,
    plan,
    scan,
)
from evrun.batch.settings import Settings
from evrun.errors import DatasetFault, UsageFault
from projections import BatchState, unit_name


def lines_of(values):
    """Rows as the reader gives them."""
    return [Row(n, value, json.dumps(value).encode()) for n, value in enumerate(values, 1)]


def prompts(*texts):
    """Rows of these prompts."""
    return [{"prompt": text} for text in texts]


def planned_rows(values, batch_size=2, samples=1):
    """All planned rows of a first planning."""
    events = plan(
        lines_of(values), scan(lines_of(values), None), None, Numbering(0, 1, 0, batch_size), samples
    )
    return [row for event in events for row in event.rows]


class Planner:
    """A run's plan, brought up to one dataset after the other through a real file and the real fold."""

    def __init__(self, path, batch_size=2, samples=1):
        self.path = path
        self.settings = Settings(dataset=str(path), model="m", batch_size=batch_size, samples=samples)
        self.state = BatchState()
        self.sequence = 0
        self.apply(RunStarted("batch", "r", {"model": "m"}, {}, {}, []))

    def apply(self, event):
        """Fold an event."""
        self.sequence += 1
        self.state.apply(Recorded(self.sequence, self.sequence, 1, event))

    def write(self, values):
        """The dataset, from now on."""
        self.path.write_bytes(b"".join(line.raw + b"\n" for line in lines_of(values)))

    def first(self, values, stop_after=None):
        """Plan a new run, perhaps only its first events."""
        self.write(values)
        scanned = scan_dataset(self.path, self.settings, skip_bad_rows=False)
        for number, event in enumerate(first_plan(self.path, self.settings, scanned)):
            if number == stop_after:
                break
            self.apply(event)

    def further(self, values):
        """Resume with a dataset; the comparison, and the events."""
        self.write(values)
        scanned = scan_dataset(self.path, self.settings, skip_bad_rows=False)
        compared = comparison(scanned, self.state, self.settings)
        events = list(further_plan(self.path, self.settings, self.state, scanned, compared))
        for event in events:
            self.apply(event)
        assert self.state.unexplained == 0
        return compared, events

    def end(self, unit):
        """A unit is kept."""
        self.apply(PromptStarted(unit, 1, [], b"s"))
        counts = Counts(1, 1, 0, None, {})
        self.apply(
            TrajectoryCompleted(unit, 1, completed=True, partial=False, finish_reason="stop", counts=counts)
        )

    def places(self):
        """Unit -> (index, batch, sample, outcome)."""
        return {n: (u.index, u.batch, u.sample, u.outcome) for n, u in self.state.units.items()}


@pytest.fixture(name="planner")
def _planner(tmp_path):
    return Planner(tmp_path / "d.jsonl")


def name(text, occurrence=1, sample=1):
    """The unit of a prompt."""
    return unit_name(content_id({"prompt": text}), occurrence, sample)


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


def test_max_samples_takes_the_first_usable_rows():
    """Bad lines do not count, and later ones are complained about all the same."""
    lines = [BadLine(1, "x"), *lines_of(prompts("a", "b", "c")), BadLine(9, "y")]
    found = scan(lines, 2)
    assert len(found.identities) == 2
    assert [line for line, _ in found.bad] == [1, 9]
    rows = [row for event in plan(lines, found, None, Numbering(0, 1, 0, 10), 1) for row in event.rows]
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


@pytest.mark.parametrize("data", [b"", b"\n\n", b"3\n"])
def test_a_dataset_without_a_usable_row_is_refused(tmp_path, data):
    """Nothing to do is an error, not a run that is done."""
    path = tmp_path / "d.jsonl"
    path.write_bytes(data)
    with pytest.raises(UsageFault, match="no usable row"):
        scan_dataset(path, Settings(dataset="d", model="m"), skip_bad_rows=True)


def test_the_same_dataset_adds_nothing(planner):
    """No event, whatever the order of its rows."""
    planner.first(prompts("a", "b", "b", "c"))
    for rows in (prompts("a", "b", "b", "c"), prompts("b", "c", "a", "b")):
        compared, events = planner.further(rows)
        assert (compared.known, compared.new, compared.gone, events) == (4, {}, [], [])


def test_a_new_row_in_front_changes_no_known_row(planner):
    """It gets a new batch after the last, though the last was not full; the known keep index and batch."""
    planner.first(prompts("p", "q", "r"))
    before = planner.places()
    compared, _ = planner.further(prompts("n", "p", "q", "r"))
    assert (compared.known, len(compared.new), compared.gone) == (3, 1, [])
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
    assert compared.gone == [name("a"), name("b")]
    assert [type(event) for event in events] == [PromptsWithdrawn]
    outcomes = [place[3] for place in planner.places().values()]
    assert outcomes == ["kept", "withdrawn", "pending"]


def test_a_row_that_is_back_takes_its_old_place(planner):
    """Gone and back again: the same unit, index and batch."""
    planner.first(prompts("a", "b", "c"))
    before = planner.places()
    planner.further(prompts("c"))
    compared, _ = planner.further(prompts("b", "c", "a"))
    assert compared.known == 1
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
    assert [(row.first_sample, row.samples) for row in events[0].rows] == [(2, 2), (2, 2)]
    assert planner.state.counts["total"] == 6
    grown = planner.places()
    planner.settings = Settings(dataset="d", model="m", batch_size=2, samples=1)
    planner.further(prompts("a", "b"))
    assert (planner.state.counts["total"], planner.state.counts["withdrawn"]) == (2, 4)
    planner.settings = Settings(dataset="d", model="m", batch_size=2, samples=3)
    planner.further(prompts("a", "b"))
    assert planner.places() == grown


def test_samples_that_are_missing_in_the_middle_are_planned_alone():
    """A finished sample between two withdrawn ones stays as it is."""
    lines = lines_of(prompts("a"))
    scanned = scan(lines, None)
    active = [(name("a", sample=2), False), (name("a", sample=1), True)]
    compared = compare(scanned, active, 4)
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
    identity = scan(lines_of(prompts("a")), None).identities[0]
    row = planned_rows(prompts("a"))[0]
    planner.apply(PromptsPlanned([row], complete=False))
    compared, events = planner.further(prompts("a"))
    assert identity not in compared.new
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
    assert (compared.new, compared.gone, events) == ({}, [], [])
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
