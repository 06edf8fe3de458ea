"""Events by type and by unit: what is not decoded for a listing would not have been in it."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eventlog.errors import MalformedEvent, UnknownEvent
from eventlog.events import SpendCorrected, SpendInDoubt, encode_event
from projections import EventLister, WantedEvents, as_listed, sifted

from .histories import LogMaker, answered, begun, kept, name_of, planned, records, reserve, spent, started
from .random_history import History

TYPES = ["PromptStarted", "BudgetReserved", "BudgetSpent", "ModelAnswered", "SpendCorrected", "ToolFinished"]
ASKED = st.builds(
    WantedEvents,
    st.frozensets(st.sampled_from([*TYPES, "RunStarted", "PromptsPlanned"])),
    st.sampled_from([None, name_of(0), name_of(3), "prompt:none#1.1", "\udcff"]),
)


def all_of(history, wanted):
    """What is to be listed, with every event looked at."""
    lister = EventLister()
    events = [lister.apply(record) for record in history]
    return [
        event
        for event in events
        if (not wanted.types or event["type"] in wanted.types) and wanted.unit in (None, event["unit"])
    ]


def sieved(history, wanted):
    """What is listed, and how many events were looked at for it."""
    lister, sieve = EventLister(), wanted.sieve()
    passed = [record for record in history if sieve(encode_event(record.event))]
    told = [(record, lister.unit_of(record.event)) for record in passed]
    return [as_listed(record, unit) for record, unit in told if wanted.has(record.event, unit)], len(passed)


@given(st.integers(0, 2**32), ASKED)
@settings(max_examples=60, deadline=None)
def test_a_listing_has_what_is_wanted_whatever_was_passed_over(seed, wanted):
    """In any history, by types, by a unit, by both."""
    history = records(History(Random(seed)).run(120))
    assert sieved(history, wanted)[0] == all_of(history, wanted)


def test_calls_that_are_forgotten_are_forgotten_at_the_same_event():
    """Of very many settled calls the oldest is nobody's any more, whether or not others were looked at."""
    calls = [f"c{number}" for number in range(4200)]
    commits = [[reserve(call, name_of(0)), spent(call)] for call in calls]
    late = [[SpendInDoubt(call, "late", 1, 1), SpendCorrected(call, 1, "late")] for call in calls[90:110]]
    history, wanted = records([*commits, *late]), WantedEvents(frozenset({"SpendInDoubt"}), name_of(0))
    expected = all_of(history, wanted)
    assert 0 < len(expected) < 20
    assert sieved(history, wanted)[0] == expected


def test_only_what_may_be_listed_is_decoded():
    """Types that say nothing of calls are decoded alone; of a unit also whatever settles calls."""
    unit, other = name_of(0), name_of(1)
    told = [[begun(one), reserve(one, one), spent(one), answered(one), kept(one)] for one in (unit, other)]
    history = records([[started(), planned(2)], *told])
    assert sieved(history, WantedEvents(frozenset({"PromptStarted"}), None))[1] == 2
    assert sieved(history, WantedEvents(frozenset({"PromptStarted"}), unit))[1] == 5
    assert sieved(history, WantedEvents(frozenset({"ModelAnswered"}), None))[1] == 6


@pytest.mark.parametrize(
    ("payload", "error"), [(b"junk", MalformedEvent), (b"\x93\xa4Soon\x01\x90", UnknownEvent)]
)
def test_what_this_evrun_does_not_know_is_an_error_in_any_listing(tmp_path, payload, error):
    """Nobody can say that it was not asked for."""
    with LogMaker(tmp_path / "log") as maker:
        maker.write([[started()]])
        maker._writer.append([payload])
        with pytest.raises(error):
            list(sifted(maker.reader(), WantedEvents(frozenset({"RunStarted"}), None).sieve()))
