"""What must be true of what is derived from a log: property 18. A plain function that raises."""

import itertools
import os
import subprocess
import sys
from pathlib import Path
from random import Random

from eventlog.events import SessionOpened, encode_event
from eventlog.storage import LogWriter, compact
from tests.projections.random_history import History

ROOT = Path(__file__).parents[3]
CHILD = Path(__file__).with_name("replay_child.py")
START_NS = 1_700_000_000_000_000_000

SURROUNDINGS = (
    {"PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C"},
    {"PYTHONHASHSEED": "1", "TZ": "Asia/Kathmandu", "LC_ALL": "C.UTF-8"},
    {"PYTHONHASHSEED": "4242", "TZ": "America/St_Johns", "LC_ALL": "de_DE.UTF-8", "PYTHONUTF8": "0"},
    {"PYTHONHASHSEED": "77", "TZ": "Pacific/Apia", "LC_ALL": "POSIX"},
)


def write(log, commits, group):
    """Write the events of a run, so many in one commit (0: as they were committed), all at one moment."""
    writer = None
    for commit in commits if not group else regrouped(commits, group):
        if isinstance(commit[0], SessionOpened):
            if writer is not None:
                writer.close()
            writer = LogWriter.open(log, clock_ns=lambda: START_NS, random_bytes=lambda size: b"r" * size)
        writer.append([encode_event(event) for event in commit])
    writer.close()


def regrouped(commits, group):
    """The same events, `group` in a commit; a session's first event begins one, as its writer is another."""
    waiting = []
    for event in itertools.chain.from_iterable(commits):
        if waiting and (len(waiting) == group or isinstance(event, SessionOpened)):
            yield waiting
            waiting = []
        waiting.append(event)
    if waiting:
        yield waiting


def digests(log, out, surroundings, broken):
    """What a process of its own makes of a log."""
    environment = {**os.environ, **surroundings, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(CHILD), str(log), str(out), *([broken] if broken else [])]
    done = subprocess.run(
        command, env=environment, cwd=out.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def check_views_depend_on_the_events_alone(place, *, steps=300, broken=None):
    """18. Not on hash seed, time zone, locale, process, group sizes, or whether segments are compressed."""
    commits = History(Random(11), 12).run(steps)
    place.mkdir(exist_ok=True)
    whole, less = set(), set()
    for number, (group, surroundings) in enumerate(itertools.zip_longest((0, 0, 1, 7), SURROUNDINGS)):
        log = place / f"run {number}" / "log"
        write(log, commits, group)
        found = digests(log, log.parent / "views", surroundings, broken)
        less.add(found[1])
        if group == 0:
            whole.add(found[0])
    compact(place / "run 0" / "log", random_bytes=os.urandom)
    found = digests(place / "run 0" / "log", place / "run 0" / "again", SURROUNDINGS[2], broken)
    assert len({found[0], *whole}) == 1, "the same log gives other views in another process"
    assert len({found[1], *less}) == 1, "the same events in other groups give other views"
