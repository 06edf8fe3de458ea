"""strace makes system calls of a real writer fail, one after the other: nothing acknowledged is lost."""

import pytest

from tests.system.injection import COUNT, FAULTS, Scene, check_outcome, no_log, old_log, unclean_log
from tests.system.strace import traced

WRITING = ("openat", "pwrite64", "fallocate", "fdatasync", "fsync", "rename", "ftruncate")
SCENES = {
    "a new log": (no_log, "write", {"count": COUNT}, WRITING),
    "an unclean log": (unclean_log, "write", {"count": COUNT}, WRITING),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    ("scene", "name"), [(scene, name) for scene, (*_, names) in SCENES.items() for name in names]
)
def test_a_fault_at_each_system_call_has_its_outcome_and_loses_nothing(
    server, tmp_path, tally, scene, name, fault
):
    """Opening, appending, rolling, sealing, closing: each call of this name is struck once, each time anew.

    A full disk leaves the commit certainly absent and the handle usable; an error of the disk, and any error
    of a sync, leaves it unknown and the handle dead, without another sync; a kill leaves what was said.
    """
    prepare, act, order, _ = SCENES[scene]
    played = Scene(server, tmp_path, prepare, act, **order)
    points = played.points(name)
    for point in points:
        struck = played.strike(name, point, fault)
        check_outcome(struck, fault)
        played.judge(struck)
    assert points
    tally("injections", len(points))
