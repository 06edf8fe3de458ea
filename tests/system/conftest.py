"""A server of processes for each test, and a count of what was done to them."""

import pytest

from tests.system.processes import Server

WORDS = {
    "injections": "faults injected into system calls",
    "cuts": "power cuts",
    "kills": "kills",
    "stops": "stopped holders",
}


@pytest.fixture
def server(tmp_path):
    """Processes that work on logs; none is left when the test ends."""
    tmp_path.chmod(0o755)
    started = Server(tmp_path)
    yield started
    started.close()


@pytest.fixture
def tally(record_property):
    """Call it with how many of something a test has done: it stands in the summary."""

    def count(what, times):
        record_property(f"system:{what}", times)

    return count


def pytest_terminal_summary(terminalreporter):
    """Say how much was tried."""
    done = dict.fromkeys(WORDS, 0)
    notes = []
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            kind = name.removeprefix("system:")
            if kind in done:
                done[kind] += value
            elif kind != name:
                notes.append(f"{kind}: {value}")
    if any(done.values()):
        text = ", ".join(f"{done[kind]} {words}" for kind, words in WORDS.items())
        terminalreporter.write_line(f"system calls: {text}; 0 acknowledged commits lost")
    for note in notes:
        terminalreporter.write_line(note)
