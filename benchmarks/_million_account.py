"""Every call of a log against what the endpoint served, and how large the log is; a process of its own.

python benchmarks/_million_account.py RUN_DIRECTORY ENDPOINT_ROOT_URL FIRST_SESSION JSON_FILE

For each call's key the endpoint must have served as many requests as the log settled, and at most so many
more as it holds in doubt, with the same tokens; and nothing else. Only calls of sessions from FIRST_SESSION
on are looked at: those before were not made against this endpoint.
"""

import json
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from eventlog.events import (  # noqa: E402
    BudgetReleased,
    BudgetReserved,
    BudgetSpent,
    SpendInDoubt,
    decode_event,
    event_type,
)
from eventlog.storage import LogReader  # noqa: E402
from eventlog.storage.format import BLOCK_BYTES, TWIN_SUMMARY_OFFSET  # noqa: E402
from eventlog.storage.twin import parse_summary  # noqa: E402
from projections import idempotency_key  # noqa: E402
from tests.endpoint.counting import Served, parse_records, short_key  # noqa: E402

PIECE = 1 << 20
MONEY = frozenset({"BudgetReserved", "BudgetSpent", "BudgetReleased", "SpendInDoubt"})


def served_by(url: str) -> dict[bytes, list[Served]]:
    """What the endpoint served, by key."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url + "/_records") as response:
        records = parse_records(response.read())
    found: dict[bytes, list[Served]] = {}
    for one in records:
        found.setdefault(one.key, []).append(one)
    return found


def ends_of(reader: LogReader, first_session: int) -> Iterator[tuple[bytes, object]]:
    """Each end of a call: its key in short, and the event that is its end."""
    open_calls: dict[str, bytes] = {}
    for record in reader.read():
        if event_type(record.payload) not in MONEY:
            continue
        event = decode_event(record.payload)
        if isinstance(event, BudgetReserved):
            if record.epoch >= first_session:
                key = idempotency_key(event.unit, event.attempt, event.request)
                open_calls[event.call] = short_key(key)
        elif isinstance(event, BudgetSpent | BudgetReleased | SpendInDoubt) and event.call in open_calls:
            yield open_calls.pop(event.call), event
    for key in open_calls.values():
        yield key, None


def compared(reader: LogReader, served: dict[bytes, list[Served]], first_session: int) -> dict[str, int]:
    """The calls by their end, and how many do not fit; `served` is used up."""
    counts = dict.fromkeys(("settled", "in_doubt", "released", "open", "wrong"), 0)
    doubted: list[bytes] = []
    for key, event in ends_of(reader, first_session):
        match event:
            case BudgetSpent(usage=usage):
                counts["settled"] += 1
                here = served.get(key, [])
                same = [one for one in here if one[1:] == (usage.input_tokens, usage.output_tokens, True)]
                counts["wrong"] += not same
                if same:
                    here.remove(same[0])
            case SpendInDoubt():
                counts["in_doubt"] += 1
                doubted.append(key)
            case BudgetReleased():
                counts["released"] += 1
            case _:
                counts["open"] += 1
    for key in doubted:  # it reached the endpoint, or it did not
        del served.get(key, [])[:1]
    counts["unknown_to_the_log"] = sum(map(len, served.values()))
    return counts


def size_of(log: Path) -> dict[str, int]:
    """Bytes of the segments: uncompressed, and as they lie there; both without what is preallocated.

    A plain segment whose twin is there is about to go, and is not counted.
    """
    twins = list(log.glob("*.evz"))
    plain = [_used_bytes(path) for path in log.glob("*.evl") if path.with_suffix(".evz") not in twins]
    return {
        "plain_bytes": sum(plain) + sum(map(_unpacked_bytes, twins)),
        "bytes": sum(plain) + sum(path.stat().st_size for path in twins),
        "plain": len(plain),
        "compressed": len(twins),
    }


def _unpacked_bytes(path: Path) -> int:
    """Where the plain segment ended that a compressed one stands for."""
    with path.open("rb") as file:
        file.seek(TWIN_SUMMARY_OFFSET)
        return parse_summary(file.read(BLOCK_BYTES)).end.offset_bytes


def _used_bytes(path: Path) -> int:
    """The size up to the last byte that is not zero."""
    with path.open("rb") as file:
        at = path.stat().st_size
        while at > 0:
            start = max(0, at - PIECE)
            file.seek(start)
            used = len(file.read(at - start).rstrip(b"\0"))
            if used:
                return start + used
            at = start
    return 0


def main() -> None:
    """Compare, and write what was found."""
    run, url, first_session, out = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])
    sizes = size_of(run / "log")
    served = served_by(url)
    requests = sum(map(len, served.values()))
    reader = LogReader.open(run / "log")
    calls = compared(reader, served, first_session)
    found = {"events": reader.end.sequence, "requests": requests, "calls": calls, "log": sizes}
    out.write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
