"""Every crash point of everything that a log does: open, append, roll, seal, compress, close.

At each the process dies, and the power is cut: all disks that may be left, as long as they are few enough, or
so many of them. EVRUN_IMAGES multiplies how many.
"""

import math

import pytest

from eventlog.testing import Episode, examine_all, new_disk, open_log
from eventlog.testing.loss import unsynced_items

from .lives import FULL, LIVES, is_frame

ALL = 3**10  # the images of ten un-synced sectors, each of them old, new or garbage


@pytest.mark.parametrize("life", LIVES, ids=lambda life: life.__name__)
def test_every_crash_point_opens_with_all_that_was_acknowledged(life, images_scale, count_images):
    """A <= R <= I, whole commits, byte-identical, in order; opening again and going on finds them too."""
    episode = life(new_disk())
    last = episode.at(episode.disk.now())
    examined = examine_all(episode, limit=min(ALL, round(25 * images_scale)))
    count_images(examined.images)
    assert len(last.events) in examined.recovered
    assert len(episode.before) in examined.recovered
    assert examined.images > 5 * len(list(episode.crash_points()))


def test_lives_reach_every_kind_of_moment():
    """The crash points above are those that matter: each operation of roll, seal and compression is there."""
    kinds = set()
    for life in LIVES:
        episode = life(new_disk())
        kinds |= {type(point.last).__name__ for point in episode.crash_points()}
        kinds |= {"torn" for point in episode.crash_points() if point.torn}
    assert kinds >= {
        "Create", "Resize", "Write", "SyncFile", "SyncDirectory", "Rename", "Unlink", "torn",
    }  # fmt: skip


@pytest.mark.parametrize("sectors", [1, 2, 6, 10])
def test_all_images_of_an_unsynced_commit_keep_the_promises(sectors, images_scale, count_images):
    """Old, new or garbage in each sector of the frame: every combination, for ten sectors in the full run."""
    episode = Episode(new_disk())
    with open_log(episode.disk) as writer:
        episode.append(writer, 10)
        episode.disk.settle()
        episode.append(writer, 512 * sectors - 300)
    frame = [point for point in episode.crash_points() if is_frame(point, 512 * (sectors - 1) + 50)][-1]
    assert len(unsynced_items(frame.disk)) == sectors
    assert math.prod(len(item.versions) + 1 for item in unsynced_items(frame.disk)) == 3**sectors
    limit = 3**sectors if sectors < 10 or images_scale >= FULL else round(1_500 * images_scale)
    examined = examine_all(episode, limit=limit, points=lambda point: point.operations == frame.operations)
    count_images(examined.images)
    assert examined.images >= limit
    assert examined.recovered == {1, 2}


def test_the_header_of_a_new_segment_may_be_lost_in_every_way(images_scale, count_images):
    """From making a segment to naming it durably, with every image that there is: the log stays empty."""
    episode = Episode(new_disk())
    with open_log(episode.disk) as writer:
        episode.disk.settle()
        episode.append(writer, 10)
    names = [point.operations for point in episode.crash_points() if "Rename" in repr(point.last)]
    near = range(names[0] - 5, names[0] + 2)
    examined = examine_all(
        episode,
        limit=min(ALL, round(400 * images_scale)),
        points=lambda point: point.operations in near and not point.torn,
    )
    count_images(examined.images)
    assert examined.recovered == {0}
