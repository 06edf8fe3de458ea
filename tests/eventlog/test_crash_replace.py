"""`replace_file` crashed everywhere: old content or new, and with `durable` never older than it returned."""

from pathlib import Path

import pytest

from eventlog.storage import replace_file
from eventlog.testing import CrashTestFailed, crash_test, new_disk, read_file, write_file

PATH = Path("/run/view")
CONTENTS = {0: b"old" * 300, 1: b"first" * 400, 2: b"second" * 100}


def old_disk():
    """A disk on which the old content lies, durable."""
    disk = new_disk()
    write_file(disk, str(PATH), CONTENTS[0])
    disk.settle()
    return disk


def replacing(*, durable):
    """Replace the content twice; promise each once it is there."""

    def scenario(disk, promise):
        for number in (1, 2):
            replace_file(
                PATH, [CONTENTS[number][:700], CONTENTS[number][700:]], durable=durable, filesystem=disk
            )
            promise(number)

    return scenario


def whole_and_not_older(disk, promised):
    """One of the contents in full, at least the one that was promised last."""
    content = read_file(disk, str(PATH))
    assert content in [CONTENTS[number] for number in (0, 1, 2) if number >= max(promised, default=0)]


def test_a_durable_replacement_is_old_or_new_and_stays(count_images):
    """At every crash point, of the process and of the power."""
    report = crash_test(replacing(durable=True), whole_and_not_older, start=old_disk())
    count_images(report.images)
    assert report.images > 100


def test_one_that_is_not_durable_survives_the_process_but_not_the_power():
    """As documented: without `durable` a power cut may leave it empty; so the test above can fail."""
    crash_test(replacing(durable=False), whole_and_not_older, start=old_disk(), images_per_point=0)
    with pytest.raises(CrashTestFailed, match="the power failed"):
        crash_test(replacing(durable=False), whole_and_not_older, start=old_disk())
