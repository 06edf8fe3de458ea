"""The table of units: packed columns that answer as plain records would."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.errors import MalformedEvent
from eventlog.events import BudgetSpent, PlannedRow, PromptsPlanned, Recorded, Usage
from projections import RunState, Unit, UnitTable, unit_name
from projections.units import ENDED, KEPT, OUTCOMES, PENDING, unit_key
from tests.projections.histories import begun, kept, planned, records, reserve, started


def content(number: int) -> bytes:
    """A content id."""
    return hashlib.sha256(b"%d" % number).digest()[:16]


NAMES = [unit_name(content(number), occurrence, sample) for number, occurrence, sample in (
    (0, 1, 1), (0, 1, 2), (0, 2, 1), (1, 1, 1), (2, 300, 1), (3, 1, 70_000)
)]  # fmt: skip
MONEY = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 100) | st.just(2**31)
COUNT = st.integers(0, 3) | st.sampled_from([255, 256, 65_536, 2**32, 2**64 - 1])
SET: dict[str, st.SearchStrategy[Any]] = {
    "outcome": st.sampled_from(OUTCOMES),
    "attempt": COUNT,
    "boundary": COUNT,
    "settled_nano_usd": MONEY,
    "earlier_nano_usd": MONEY,
    "reason": st.none() | st.sampled_from(["partial", "no_reasoning", "é"]) | st.text(max_size=2),
    "gone": st.booleans(),
    "score": st.none() | st.floats(allow_nan=False),
    "unknown_tools": st.booleans(),
}
PLACE = st.tuples(COUNT, COUNT, COUNT, COUNT)
ADD = st.tuples(st.just("add"), st.sampled_from(NAMES), PLACE)
STEP = st.sampled_from(sorted(SET)).flatmap(
    lambda name: st.tuples(st.just(name), st.sampled_from(NAMES), SET[name])
)


@dataclass
class Plain:
    """A unit as it would be if memory were of no concern."""

    index: int
    batch: int
    planned: int
    position: int
    sample: int
    outcome: str = PENDING
    attempt: int = 0
    boundary: int = 0
    settled_nano_usd: int = 0
    earlier_nano_usd: int = 0
    reason: str | None = None
    gone: bool = False
    score: float | None = None
    unknown_tools: bool = False


FIELDS = tuple(Plain.__dataclass_fields__)


@dataclass
class Both:
    """A table and the plain records that it must agree with."""

    table: UnitTable = field(default_factory=UnitTable)
    plain: dict[str, Plain] = field(default_factory=dict)

    def do(self, step: tuple[str, str, Any]) -> None:
        """The same thing to both."""
        what, name, value = step
        if what == "add":
            key = unit_key(name)
            assert key is not None
            index, batch, planned, position = value
            unit = self.table.add(*key, index=index, batch=batch, planned=planned, position=position)
            self.plain.setdefault(name, Plain(index, batch, planned, position, key[2]))
            assert unit.name == name
        elif name in self.plain:
            setattr(self.table[name], what, value)
            setattr(self.plain[name], what, value)

    def agree(self, table: UnitTable) -> None:
        """Whatever can be asked of the table is what the records say."""
        plain = self.plain
        assert len(table) == len(plain)
        assert list(table) == list(table.keys()) == list(plain)
        assert [values(unit) for unit in table.values()] == [values(unit) for unit in plain.values()]
        assert [(name, values(unit)) for name, unit in table.items()] == [
            (name, values(unit)) for name, unit in plain.items()
        ]
        for name in NAMES:
            assert (name in table) == (name in plain)
            found = table.get(name)
            assert (None if found is None else values(found)) == (
                values(plain[name]) if name in plain else None
            )
        assert table.all_nano_usd() == sum(
            unit.settled_nano_usd + unit.earlier_nano_usd for unit in plain.values()
        )
        for outcomes in ((KEPT,), (KEPT, PENDING), OUTCOMES, ()):
            wanted = {name: unit for name, unit in plain.items() if unit.outcome in outcomes}
            assert list(table.names_with(*outcomes)) == list(wanted)
            assert list(table.names_with(*outcomes, gone=False)) == [
                n for n, u in wanted.items() if not u.gone
            ]
            assert [unit.name for unit in table.units_with(*outcomes)] == list(wanted)
            assert list(table.scores(*outcomes)) == [u.score for u in wanted.values() if u.score is not None]
        left = {unit.batch: False for unit in plain.values()}
        for unit in plain.values():
            left[unit.batch] |= unit.outcome in {"open", "pending"}
        assert table.batches() == (len(left), sum(not goes_on for goes_on in left.values()))
        assert [
            (f"prompt:{one.prompt_id}.{one.sample}", one.batch, one.outcome)
            for one in table.outcomes_now().ended()
        ] == [(name, unit.batch, unit.outcome) for name, unit in plain.items() if unit.outcome in ENDED]


def values(unit: Unit | Plain) -> list[Any]:
    """All that is known of a unit."""
    return [getattr(unit, name) for name in FIELDS]


@settings(max_examples=60, deadline=None)
@given(st.lists(ADD | STEP | STEP, max_size=40))
def test_the_packed_table_equals_plain_records_whatever_is_done_to_it(steps: list[Any]) -> None:
    """Any sequence of additions and changes leaves what a dict of records would hold, also taken up again."""
    both = Both()
    for step in steps:
        both.do(step)
    both.agree(both.table)
    again = UnitTable.of_parts(both.table.parts())
    both.agree(again)
    again.add(content(99), 1, 1, index=1, batch=1, planned=1, position=1)
    assert again[unit_name(content(99), 1, 1)].outcome == PENDING


@pytest.mark.parametrize(
    "name",
    [
        "", "prompt:", NAMES[0].upper(), NAMES[0].replace("prompt:", "Prompt:"), NAMES[0] + "0",
        NAMES[0] + "\n", NAMES[0].replace("#1", "#01"), NAMES[0].replace("#1", "#+1"),
        NAMES[0].replace("#1", "#\u0661"),
        NAMES[0].replace(".1", ".1_0"), NAMES[0][:-2], "prompt:" + " " * 32 + "#1.1", "step:1",
        "prompt:" + content(0).hex().upper() + "#1.1", "prompt:" + content(0).hex()[:30] + "#1.1",
    ],
)  # fmt: skip
def test_a_text_that_is_nearly_a_units_name_is_none(name: str) -> None:
    """A unit has one name; what only reads like it is not found."""
    both = Both()
    both.do(("add", NAMES[0], (0, 1, 2, 0)))
    assert name not in both.table
    assert both.table.get(name) is None
    with pytest.raises(KeyError):
        both.table[name]
    assert NAMES[0] in both.table


def test_names_are_given_by_what_is_true_when_their_turn_comes() -> None:
    """Units may be added, begin and end while the names with an outcome are gone through."""
    table = UnitTable()
    for number in range(4):
        table.add(content(number), 1, 1, index=number, batch=1, planned=1, position=number)
    names, given = list(table), []
    for name in table.names_with(PENDING):
        given.append(name)
        table[name].outcome = KEPT
        if len(given) == 1:
            table[names[2]].outcome = KEPT
        if len(given) == 3:
            table.add(content(4), 1, 1, index=4, batch=1, planned=9, position=0)
    assert given == [names[0], names[1], names[3], unit_name(content(4), 1, 1)]


def test_frozen_outcomes_stay_as_they_were_while_the_table_goes_on() -> None:
    """What was frozen says nothing of what ended or came later."""
    table = UnitTable()
    for number in range(3):
        table.add(content(number), 1, 1, index=number, batch=1, planned=1, position=number).outcome = KEPT
    frozen = table.outcomes_now()
    ended = frozen.ended()
    first = next(ended)
    for number in range(3, 600):
        table.add(content(number), 1, 1, index=number, batch=300, planned=1, position=number).outcome = KEPT
    for unit in table.values():
        unit.outcome = "failed"
    assert [first, *ended] == list(frozen.ended())
    assert [(one.outcome, one.batch) for one in frozen.ended()] == [(KEPT, 1)] * 3


def test_more_units_than_are_held_near_are_all_found() -> None:
    """Units that were looked up before and forgotten are found again, each its own."""
    table = UnitTable()
    for number in range(5000):
        table.add(content(number), 1, 1, index=number, batch=1, planned=1, position=number)
    for _ in range(2):
        assert all(table[unit_name(content(n), 1, 1)].index == n for n in range(5000))


def test_an_ended_unit_takes_fewer_than_ninety_bytes() -> None:
    """With money, a reason, a score and an earlier attempt; what the columns hold is counted, and slots."""
    table = UnitTable()
    for number in range(20_000):
        unit = table.add(
            content(number), 1, 1, index=number, batch=1 + number // 10, planned=70_000, position=7
        )
        unit.outcome, unit.attempt, unit.boundary = "discarded", 2, 5_000_000 + number
        unit.settled_nano_usd = unit.earlier_nano_usd = 1_000_000
        unit.reason, unit.score = "partial", 0.5
    slots = 3 * 4
    assert sum(map(len, table.parts().values())) / len(table) + slots < 90


@pytest.mark.parametrize("lost", ["marks", "keys.contents", "settled", "reasons"])
def test_parts_of_no_table_are_refused(lost: str) -> None:
    """A part that is missing or of another shape is an error."""
    both = Both()
    both.do(("add", NAMES[0], (0, 1, 2, 0)))
    parts = both.table.parts()
    with pytest.raises(KeyError):
        UnitTable.of_parts({name: part for name, part in parts.items() if name != lost})
    with pytest.raises(ValueError, match=r"expected|found|invalid|Expected|trailing"):
        UnitTable.of_parts({**parts, lost: b"\xc1nothing"})


def spend(cost: int) -> Callable[[str], BudgetSpent]:
    """A settlement of so much."""
    return lambda call: BudgetSpent(call, Usage(1, None, 1, None), cost, "a test")


def test_money_that_64_bits_cannot_hold_stops_the_fold_and_names_the_sequence() -> None:
    """A sum past the largest number is an error, not another sum."""
    a = next(iter(state_of([[planned(1)]]).batch.units))
    most = 2**63 - 1
    commits = [
        [started(), planned(1), begun(a), reserve("c", a), reserve("d", a)],
        [spend(most)("c")],
        [spend(1)("d")],
    ]
    state = RunState()
    *before, last = records(commits)
    for record in before:
        state.apply(record)
    assert state.batch.units[a].settled_nano_usd == most
    with pytest.raises(MalformedEvent, match=r"sequence 7, BudgetSpent: .*64 bits"):
        state.apply(last)
    assert state.batch.units[a].settled_nano_usd == most


def state_of(commits: list[list[Any]]) -> RunState:
    """What commits add up to."""
    state = RunState()
    for record in records(commits):
        state.apply(record)
    return state


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (
            PlannedRow(b"short", 1, 0, 1, b"{}"),
            r"sequence 1, row 0: expected a content id of 16 bytes, found 5",
        ),
        (PlannedRow(bytes(16), 1, -1, 1, b"{}"), r"sequence 1, PromptsPlanned: .*negative"),
    ],
)
def test_a_plan_that_no_evrun_writes_stops_the_fold(row: PlannedRow, words: str) -> None:
    """An id of another length, a place below 0: the event is named."""
    with pytest.raises(MalformedEvent, match=words):
        RunState().apply(Recorded(1, 1, 1, PromptsPlanned([row], complete=True)))


def test_the_money_of_outcomes_follows_units_as_they_move() -> None:
    """What the newest attempts cost by outcome is the sum over the units, at every step."""
    a, b = state_of([[planned(2)]]).batch.units
    commits = [
        [started(), planned(2)],
        [begun(a), reserve("a1", a)],
        [spend(5)("a1")],
        [begun(a, 2), reserve("a2", a, 2), begun(b), reserve("b1", b)],
        [spend(7)("a2"), kept(a, 2)],
        [spend(11)("b1")],
    ]
    state = RunState()
    for record in records(commits):
        state.apply(record)
        sums = dict.fromkeys(state.batch.settled, 0)
        for unit in state.batch.units.values():
            if unit.outcome in sums:
                sums[unit.outcome] += unit.settled_nano_usd
        assert state.batch.settled == sums
    assert state.batch.settled == {"kept": 7, "discarded": 0, "failed": 0, "open": 11}
    assert state.batch.superseded_nano_usd == 5
