"""A point in a log: a sequence number, or a moment as `evrun events` shows it."""

import pytest

from cli.points import moment_ns, sequence_of
from eventlog.storage import LogReader
from evrun.errors import UsageFault
from tests.cli.story import NOON_NS

MS = 1_000_000


@pytest.mark.parametrize(
    ("text", "ms_after_noon"),
    [
        ("2026-11-29T12:00:00Z", 0),
        ("2026-11-29T12:00Z", 0),
        ("2026-11-29t12:00:00z", 0),
        ("2026-11-29 12:00:01Z", 1000),
        ("2026-11-29T12:00:00.5Z", 500),
        ("2026-11-29T12:00:00.123456789Z", 123),
        ("2026-11-29T14:30:00+02:30", 0),
        ("2026-11-29T04:00:00-08:00", 0),
        ("1969-12-31T23:59:59.999Z", -NOON_NS // MS - 1),
    ],
)
def test_a_moment_stands_for_its_whole_millisecond(text, ms_after_noon):
    """Times are shown to the millisecond, so what is shown with a time is in when that time is given."""
    assert moment_ns(text, "--to") == NOON_NS + ms_after_noon * MS + MS - 1


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "2026-11-29", "12:00", "2026-11-29T12:00:00", "2026-02-30T12:00:00Z", "-1", "1.5", "٣"],
)
def test_what_is_no_point_is_a_usage_error(text):
    """A moment without its zone is none either: nobody could say when it was."""
    with pytest.raises(UsageFault, match=r"expected a sequence number, or a moment such as 2026-"):
        moment_ns(text, "--to")


def test_a_point_is_found_in_the_log(crash):
    """A number is itself; a moment is the last event by then: 0 before the first, the end after the last."""
    reader = LogReader.open(crash / "log")
    assert sequence_of("7", reader, "--to") == 7
    assert sequence_of("0", reader, "--to") == 0
    assert sequence_of("2026-11-29T11:59:59Z", reader, "--to") == 0
    assert sequence_of("2027-01-01T00:00:00Z", reader, "--to") == 11
    for record in reader.read():
        text = f"2026-11-29T12:00:{(record.time_ns - NOON_NS) // 10**9:02d}.000Z"
        assert reader.read_one(sequence_of(text, reader, "--to")).time_ns == record.time_ns
    reader.close()


def test_a_sequence_past_the_end_is_a_usage_error(crash):
    """Nothing is made up for events that have not happened."""
    reader = LogReader.open(crash / "log")
    with pytest.raises(UsageFault, match="--to 12: the log ends at event 11"):
        sequence_of("12", reader, "--to")
    reader.close()
