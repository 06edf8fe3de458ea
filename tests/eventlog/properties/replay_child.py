"""Replay a log in a process of its own and print digests of all that it says: of its views and reports.

    replay_child.py LOG OUT [BROKEN]

Two lines: everything; and everything but the chain value, which depends on how events were grouped. BROKEN
names a rule of `tests.eventlog.broken` that is broken in this process.
"""

import contextlib
import hashlib
import json
import sys
from pathlib import Path

from eventlog.storage import LogReader
from projections import audit_report, fold_log, rebuild, status_report


def main(log, out, broken=None):
    """Print the two digests."""
    from tests.eventlog import broken as rules

    with rules.RULES[broken].hook() if broken else contextlib.nullcontext():
        whole, less = hashlib.sha256(), hashlib.sha256()
        for name, content in said(Path(log), Path(out)):
            whole.update(name.encode() + content)
            less.update(name.encode() + without_chain(name, content))
    print(whole.hexdigest())  # noqa: T201
    print(less.hexdigest())  # noqa: T201


def said(log, out):
    """Every view file and report, by name."""
    with LogReader.open(log) as reader:
        names = rebuild(reader, out)
        state = fold_log(reader)
        reports = {
            "audit": audit_report(state.ledger, state.batch, run="run", live=False),
            "status": status_report(state, run="run", dir="run", holder=None, chain=""),
        }
    for name in names:
        yield name, (out / name).read_bytes()
    for name, report in reports.items():
        yield name, json.dumps(report).encode()


def without_chain(name, content):
    """A view without the chain value."""
    if name != "checkpoint.json":
        return content
    found = json.loads(content)
    del found["chain"]
    return json.dumps(found).encode()


if __name__ == "__main__":
    main(*sys.argv[1:])
