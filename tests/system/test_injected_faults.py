"""strace makes system calls of a real writer fail, one after the other: nothing acknowledged is lost.

By default each call of a writer is struck twice, with EIO and with one of the other faults in turn, and each
of compression once, with one of them in turn. `EVRUN_FAULTS=all`: each with all of them, and reads too.
"""

import os

import pytest

from tests.system.injection import (
    COUNT,
    FAULTS,
    Scene,
    check_compaction,
    check_outcome,
    no_log,
    old_log,
    twins_unfinished,
    unclean_log,
)

ALL = os.environ.get("EVRUN_FAULTS") == "all"
WRITING = ("openat", "pwrite64", "fallocate", "fdatasync", "fsync", "rename", "ftruncate")
COMPRESSING = ("openat", "pwrite64", "fdatasync", "fsync", "rename", "unlink", "ftruncate", "mkdir")
READING = ("pread64",) if ALL else ()
SCENES = {
    "a new log": (no_log, "write", {"count": COUNT}),
    "an unclean log": (unclean_log, "write", {"count": COUNT}),
}


def faults_of(place):
    """The faults for the n-th call of a name."""
    return FAULTS if ALL else (FAULTS[0], FAULTS[1 + place % (len(FAULTS) - 1)])


@pytest.mark.parametrize(("scene", "name"), [(scene, name) for scene in SCENES for name in WRITING])
def test_a_fault_at_each_system_call_has_its_outcome_and_loses_nothing(server, tmp_path, tally, scene, name):
    """Opening, appending, rolling, sealing, closing: each call of this name is struck once, each time anew.

    A full disk leaves the commit certainly absent and the handle usable; an error of the disk, and any error
    of a sync, leaves it unknown and the handle dead, without another sync; a kill leaves what was said.
    """
    prepare, act, order = SCENES[scene]
    played = Scene(server, tmp_path, prepare, act, **order)
    done = 0
    for place, point in enumerate(played.points(name)):
        for fault in faults_of(place):
            struck = played.strike(name, point, fault)
            check_outcome(struck, fault)
            played.judge(struck)
            done += 1
    assert done
    tally("injections", done)


@pytest.mark.parametrize("prepare", [old_log, twins_unfinished], ids=lambda prepare: prepare.__name__)
@pytest.mark.parametrize("name", [*COMPRESSING, *READING])
def test_a_fault_at_each_system_call_of_compression_leaves_the_log_whole(
    server, tmp_path, tally, prepare, name
):
    """Reading, torn bytes put aside, the twin written, synced, read back, named, the plain segment removed.

    Struck anywhere it says so with an error of ours, or is killed; every event is there, and the next
    compression succeeds.
    """
    played = Scene(server, tmp_path, prepare, "compact")
    done = 0
    for place, point in enumerate(played.points(name)):
        for fault in FAULTS if ALL else (FAULTS[place % len(FAULTS)],):
            struck = played.strike(name, point, fault)
            check_compaction(played, struck, fault)
            played.judge(struck)
            done += 1
    tally("injections", done)
