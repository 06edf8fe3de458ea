"""`crash_test`: whatever writes through the seam is crashed everywhere; who forgets a sync is caught."""

import os
import subprocess
import sys

import pytest

from eventlog.errors import LogLost
from eventlog.storage import log_exists
from eventlog.testing import (
    LOG,
    CrashTestFailed,
    ForgetfulFileSystem,
    crash_test,
    events_in,
    new_disk,
    open_log,
    read_file,
    write_file,
)
from tests.house import ROOT

PATH = "/run/total"


def keep(disk, content, *, sync=True, name=True):
    """Replace a file as it should be done, or with a step left out."""
    fd = disk.open(f"{PATH}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    disk.pwrite(fd, content, 0)
    if sync:
        disk.fsync(fd)
    disk.close(fd)
    disk.rename(f"{PATH}.new", PATH)
    if name:
        disk.sync_directory("/run")


def counting(**steps):
    """A scenario that keeps the numbers 1, 2 and 3, one after the other, each promised when it is kept."""

    def scenario(disk, promise):
        for number in (1, 2, 3):
            keep(disk, b"%d" % number * 600, **steps)
            promise(number)

    return scenario


def whole_and_not_older(disk, promised):
    """The file is a number in full, not older than what was promised last."""
    content = read_file(disk, PATH) or b""
    assert content in [b"", b"1" * 600, b"2" * 600, b"3" * 600]
    assert int(content[:1] or b"0") >= max(promised, default=0)


def test_a_writer_that_does_all_steps_passes():
    """Every crash point and image is looked at, and the report says how many."""
    report = crash_test(counting(), whole_and_not_older)
    assert report.points > 15
    assert report.images > report.points * 2


@pytest.mark.parametrize("left_out", ["sync", "name"])
def test_a_writer_that_leaves_a_sync_out_is_caught(left_out):
    """The error is an AssertionError; it names operation, image and seed, and what the check said."""
    with pytest.raises(CrashTestFailed, match=r"a crash after operation \d+ .* seed 1") as caught:
        crash_test(counting(**{left_out: False}), whole_and_not_older)
    assert isinstance(caught.value, AssertionError)
    assert isinstance(caught.value.__cause__, AssertionError)
    assert f"only={caught.value.operations}" in str(caught.value)


def test_a_failure_is_repeated_alone():
    """`only` looks at the crash point that the error names, and finds the same image."""
    scenario = counting(sync=False)
    with pytest.raises(CrashTestFailed) as first:
        crash_test(scenario, whole_and_not_older)
    with pytest.raises(CrashTestFailed) as again:
        crash_test(scenario, whole_and_not_older, only=first.value.operations)
    assert str(again.value) == str(first.value)
    assert crash_test(scenario, whole_and_not_older, only=first.value.operations - 3).points == 1


def test_the_same_seed_gives_the_same_images_also_alone():
    """Another seed gives others; a crash point looked at alone has the images it has among all."""

    def seen(**options):
        found = []

        def check(disk, promised):
            found.append((len(promised), read_file(disk, f"{PATH}.new"), read_file(disk, PATH)))

        crash_test(counting(sync=False), check, images_per_point=30, **options)
        return found

    everything, operations = seen(), new_disk().operations
    assert seen(seed=1) == everything != seen(seed=2)
    alone = [image for number in range(operations, operations + 25) for image in seen(only=number)]
    assert alone == everything


def test_a_process_that_dies_leaves_what_it_wrote_and_a_power_cut_may_not():
    """Both kinds of crash are looked at: without any sync only the power loses something."""
    seen = set()

    def scenario(disk, promise):
        write_file(disk, PATH, b"x" * 600)
        promise("written")

    def check(disk, promised):
        if promised:
            seen.add(read_file(disk, PATH))

    crash_test(scenario, check)
    assert {b"x" * 600, None, b""} <= seen


def test_a_promise_counts_from_the_moment_it_was_made():
    """No image of an earlier moment is held to it; every image of a later one is."""
    lengths = []
    crash_test(counting(), lambda _, promised: lengths.append(len(promised)))
    assert lengths == sorted(lengths)
    assert set(lengths) == {0, 1, 2, 3}


def test_whatever_the_check_raises_is_an_objection():
    """Also the error of a log that does not open."""

    def check(_disk, _promised):
        raise LogLost("the log has lost durable events")

    with pytest.raises(CrashTestFailed, match="LogLost: the log has lost") as caught:
        crash_test(counting(), check)
    assert isinstance(caught.value.__cause__, LogLost)


def test_a_check_may_write_and_changes_no_other_image():
    """Each image is a disk of its own."""

    def check(disk, _promised):
        assert read_file(disk, "/run/mine") is None
        write_file(disk, "/run/mine", b"mine")

    crash_test(counting(), check, images_per_point=5)


def test_a_scenario_can_begin_on_a_disk_that_is_not_new():
    """Only what comes after is crashed; what lay there is there in every image."""
    disk = new_disk()
    write_file(disk, "/run/old", b"old")
    disk.settle()

    def check(image, _promised):
        assert read_file(image, "/run/old") == b"old"
        whole_and_not_older(image, _promised)

    report = crash_test(counting(), check, start=disk)
    assert report.points == crash_test(counting(), whole_and_not_older).points


def test_a_scenario_that_leaves_the_disk_alone_is_an_error():
    """Else a scenario that writes to the real disk would pass, with nothing tested."""
    with pytest.raises(ValueError, match="did nothing to the disk"):
        crash_test(lambda disk, promise: None, whole_and_not_older)


@pytest.mark.parametrize(("lies", "passes"), [((), True), (("fdatasync",), False)])
def test_a_log_is_crash_tested_in_a_few_lines(lies, passes):
    """The number of the last event is promised; on a disk that lies it is lost."""

    def scenario(disk, promise):
        with open_log(disk) as writer:
            for number in range(4):
                promise(writer.append([b"event %d" % number]))

    def check(disk, promised):
        events = events_in(disk) if log_exists(LOG, filesystem=disk) else []
        assert len(events) >= max(promised, default=0)

    disk = new_disk(ForgetfulFileSystem(lies_about=lies))
    if passes:
        assert crash_test(scenario, check, start=disk, images_per_point=20).images > 300
    else:
        with pytest.raises(CrashTestFailed):
            crash_test(scenario, check, start=disk, images_per_point=20)


def test_the_module_needs_no_hypothesis():
    """Only its strategies do."""
    code = (
        "import sys; sys.modules['hypothesis'] = None\n"
        "import eventlog.testing\n"
        "try:\n    import eventlog.testing.strategies\n"
        "except ImportError:\n    print('as it should be')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "as it should be\n"
