"""Identities in few bytes: they are what plain lists, dicts and sets would say, and take little room."""

import hashlib
import tracemalloc
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from evrun.batch.comparison import NewSamples, compare
from evrun.batch.identities import Identities, Identity, UnitNames
from evrun.batch.plan import Numbering, plan, scan
from projections import unit_key, unit_name
from tests.evrun.planner import lines_of, prompts

FEW = [hashlib.sha256(b"%d" % n).digest()[:16] for n in range(6)]
contents = st.lists(st.sampled_from(FEW), max_size=30)
plans = st.lists(
    st.tuples(st.sampled_from(FEW), st.integers(1, 3), st.integers(1, 4), st.booleans()),
    unique_by=lambda unit: unit[:3],
    max_size=40,
)
MOST_BYTES = 60


def identities_of(given_contents):
    """Rows with these contents."""
    identities = Identities()
    for content in given_contents:
        identities.add(content)
    return identities


@given(contents)
def test_packed_identities_are_those_that_plain_counting_gives(given_contents):
    """In order, by place and by content, whatever is repeated and where."""
    seen, expected = Counter(), []
    identities = Identities()
    for content in given_contents:
        seen[content] += 1
        expected.append(Identity(content, seen[content]))
        assert identities.add(content) == seen[content]
    assert list(identities) == expected
    assert len(identities) == len(expected)
    for place, identity in enumerate(expected):
        assert identities.place_of(*identity) == place
        assert identities.content(place) == identity.content
    assert identities.place_of(FEW[0], seen[FEW[0]] + 1) is None


@given(contents, plans, st.integers(1, 3))
def test_a_comparison_says_what_sets_of_names_would_say(given_contents, units, samples):
    """What is known, new and gone, in order, of units and of rows."""
    identities = identities_of(given_contents)
    planned = [(unit_name(*unit[:3]), unit[3]) for unit in units]
    found = compare(identities, planned, samples)
    wanted = {unit_name(*row, sample) for row in identities for sample in range(1, samples + 1)}
    active = {name for name, withdrawn in planned if not withdrawn}
    rows, planned_rows = set(identities), {Identity(*unit[:2]) for unit in units}
    gone = [name for name, withdrawn in planned if not withdrawn and name not in wanted]
    assert list(found.gone) == gone
    assert len(found.gone) == len(gone)
    assert (found.known, found.rows_new) == (len(rows & planned_rows), len(rows - planned_rows))
    assert found.rows_gone == len({Identity(*unit_key(name)[:2]) for name in gone} - rows)
    new = {unit_name(*row, sample) for place, row in enumerate(identities) for sample in found.new.of(place)}
    assert new == wanted - active
    assert len(found.new) == len({unit_key(name)[:2] for name in new})
    assert [found.new.any_of(place) for place in range(len(identities))] == [
        bool(found.new.of(place)) for place in range(len(identities))
    ]


@given(st.lists(st.tuples(st.sampled_from(FEW), st.integers(1, 300), st.integers(1, 300))))
def test_names_of_units_come_back_in_order_each_once(keys):
    """As a dict would keep them."""
    names = UnitNames()
    for key in keys:
        names.add(*key)
    assert list(names) == [unit_name(*key) for key in dict.fromkeys(keys)]
    assert len(names) == len(set(keys))
    assert [unit_key(name) for name in names] == list(dict.fromkeys(keys))


def test_a_million_rows_take_as_many_small_pieces_and_nothing_else():
    """Scanned, planned and compared, a row takes no more than sixty bytes at any moment, repeated or not."""
    few, many = 500, 5_500

    def lines(rows):
        return (line for n in range(rows) for line in lines_of(prompts(str(n // 2))))

    def peak(rows):
        tracemalloc.start()
        try:
            scanned = scan(lines(rows), None)
            for event in plan(lines(rows), scanned, None, Numbering(0, 1, 0, 10), 1):
                assert event.rows
            planned = ((unit_name(*row, 1), False) for row in scanned.identities)
            assert not compare(scanned.identities, planned, 1).new
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert (peak(many) - peak(few)) / (many - few) < MOST_BYTES


def test_a_sample_that_is_planned_is_new_no_more():
    """Until then all of a row's samples are, and its row counts."""
    new = NewSamples(2, 3)
    assert (len(new), new.of(1)) == (2, [1, 2, 3])
    for sample in (1, 3):
        new.planned(1, sample)
    assert (len(new), new.of(1), new.of(0)) == (2, [2], [1, 2, 3])
    new.planned(1, 2)
    assert (len(new), new.of(1), new.any_of(1), new.any_of(0)) == (1, [], False, True)
