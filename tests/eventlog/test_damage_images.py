"""Damage on a simulated disk: whatever happens to any file, all that was acknowledged is there, or an error.

The log is small, so that everything can happen to it: every bit flipped, every sector lost, every pair of
sectors swapped, a cut at every byte, every file gone, or in the place of another. In the ordinary run chance
takes a part of it, in the full run (EVRUN_IMAGES, see `scripts/test-crashes`) it is all of it.
"""

from random import Random

import pytest

from eventlog.storage import compact
from eventlog.storage.head import parse_head
from eventlog.testing import (
    LOG,
    Episode,
    events_in,
    examine_damaged,
    new_disk,
    open_log,
    read_file,
)
from eventlog.testing.damage import (
    CopyFile,
    DropFile,
    FillSector,
    FlipBit,
    damages_of_bytes,
    damages_of_files,
    damages_of_sectors,
    file_sizes,
    random_damage,
)

from .lives import FULL, LIVES, RANDOM, torn_log

SMALL = 7 << 10  # a segment with room for six small commits


def plain_log():
    """Two sessions, so two segments; the first has torn bytes behind its end."""
    disk = torn_log(new_disk())
    episode = Episode(disk, first_mark=40)
    with open_log(disk, seed=4, segment_bytes=SMALL) as writer:
        for commit in ([40], [5, 0, 300], [800]):
            episode.append(writer, *commit)
    disk.settle()
    return disk


def compressed_log():
    """The same, compressed, and one more session behind it."""
    disk = plain_log()
    compact(LOG, random_bytes=RANDOM, filesystem=disk)
    with open_log(disk, seed=8, segment_bytes=SMALL) as writer:
        writer.append([b"behind the compressed ones"])
    disk.settle()
    return disk


LOGS = {"plain": plain_log, "compressed": compressed_log}
FILES = [
    *(("plain", name) for name in ("1.evl", "2.evl", "HEAD", "LOCK")),
    *(("compressed", name) for name in ("1.evz", "2.evz", "3.evl")),
]


def named(disk, suffix):
    """The file of the log whose name ends so."""
    (name,) = [name for name in file_sizes(disk) if name.endswith(suffix)]
    return name


def try_all(disk, damages):
    """Damage a copy of the disk in each way; return how many there were, and how many of them opened."""
    events = events_in(disk.after_process_crash())
    tried = opened = 0
    for damage in damages:
        image = disk.after_process_crash()
        try:
            damage.apply(image)
            opened += examine_damaged(image, events)
        except AssertionError as error:
            error.add_note(repr(damage))
            raise
        tried += 1
    return tried, opened


@pytest.mark.parametrize(("kind", "suffix"), FILES)
def test_no_damage_to_the_bytes_of_a_file_is_silent(kind, suffix, images_scale, count_images):
    """Bits, cuts, swapped sectors: all of them in the full run, a part of them in the ordinary one."""
    disk = LOGS[kind]()
    name = named(disk, suffix)
    size, rng, one_in = file_sizes(disk)[name], Random(suffix), round(FULL / images_scale)
    content = read_file(disk, f"{LOG}/{name}")
    damages = [
        damage
        for damage in damages_of_bytes(name, size)
        if one_in <= 1 or size < 200 or is_telling(damage, content, rng) or not rng.randrange(one_in * 20)
    ]
    tried, opened = try_all(disk, damages)
    count_images(tried)
    assert tried > 100
    if suffix not in ("HEAD", "LOCK"):
        assert opened < tried


def is_telling(damage, content, rng):
    """Whether a bit lies in a byte that is not zero, of which each sixth or so is taken."""
    return isinstance(damage, FlipBit) and content[damage.offset] != 0 and not rng.randrange(6)


@pytest.mark.parametrize("kind", LOGS)
def test_no_lost_sector_and_no_lost_or_doubled_file_is_silent(kind, count_images):
    """Each sector as zeros, ones and noise; each file gone, in the place of another, or there twice."""
    disk = LOGS[kind]()
    sizes = file_sizes(disk)
    sectors = [one for name, size in sizes.items() for one in damages_of_sectors(name, size, Random(1))]
    files = list(damages_of_files(sizes))
    tried, opened = try_all(disk, [*sectors, *files])
    count_images(tried)
    assert {type(one) for one in files} == {DropFile, CopyFile}
    assert 0 < opened < tried == len(sectors) + len(files)


@pytest.mark.parametrize("kind", LOGS)
def test_two_damages_at_once_are_not_silent_while_head_is_whole(kind, images_scale, count_images):
    """Two of any kind at random, none of them to HEAD: what HEAD promises is there, or the log refuses."""
    disk, rng = LOGS[kind](), Random(7)
    events = events_in(disk.after_process_crash())
    tried = round(1_000 * images_scale)
    for _ in range(tried):
        image = disk.after_process_crash()
        done = [damage_but_head(image, rng), damage_but_head(image, rng)]
        try:
            examine_damaged(image, events)
        except AssertionError as error:
            error.add_note(repr(done))
            raise
    count_images(tried)


def damage_but_head(image, rng):
    """Do something to any file but HEAD; return what."""
    while True:
        damage = random_damage(image, rng)
        if touches_no_head(damage):
            damage.apply(image)
            return damage


def touches_no_head(damage):
    """Whether HEAD stays as it is."""
    return "HEAD" not in (damage.file, getattr(damage, "target", ""))


@pytest.mark.parametrize("life", LIVES[1:], ids=lambda life: life.__name__)
def test_damage_on_top_of_a_crash_is_not_silent(life, images_scale, count_images):
    """A crash leaves something, and then something happens to a file: all that was acknowledged, or an error.

    The stated residual is allowed for: after a power loss HEAD may lag, and nothing but the newest commit
    itself promises it.
    """
    episode, rng = life(new_disk()), Random(life.__name__)
    tried = 0
    for point in episode.crash_points():
        promises = episode.at(point)
        for number, image in enumerate(point.images(2, rng)):
            if image.identity(str(LOG)) is None:
                continue
            for _ in range(round(5 * images_scale)):
                damaged = image.after_process_crash()
                damage = random_damage(damaged, rng)
                if damage is None:
                    continue
                floor = promises.acked if number == 0 else promised(damaged, damage, promises.acked)
                damage.apply(damaged)
                try:
                    examine_damaged(damaged, promises.events, floor)
                except AssertionError as error:
                    error.add_note(f"{point}, image {number}, {damage!r}")
                    raise
                tried += 1
    count_images(tried)
    assert tried > 100


def promised(image, damage, acked):
    """How many events must be there after this damage on a disk that lost power: those that HEAD knows of.

    If it is HEAD that is damaged, all that were acknowledged: they are in the segments.
    """
    if not touches_no_head(damage):
        return acked
    head = parse_head(read_file(image, f"{LOG}/HEAD") or b"")
    return min(acked, max([found.sequence for _, found in head], default=0))


def test_a_flipped_bit_is_seen_wherever_a_log_holds_something():
    """The suite can fail: every bit of a commit's body, if it were believed, would be other events."""
    disk = plain_log()
    name = named(disk, "2.evl")
    offset = read_file(disk, f"{LOG}/{name}").index(b"41.40|")
    for bit in range(8):
        image = disk.after_process_crash()
        FlipBit(name, offset, bit).apply(image)
        assert read_file(image, f"{LOG}/{name}") != read_file(disk, f"{LOG}/{name}")
        assert not examine_damaged(image, events_in(disk.after_process_crash()))


def test_an_examination_of_damage_can_fail():
    """Negative control: what opens with fewer events, or with others, is silent loss."""
    disk = plain_log()
    events = events_in(disk.after_process_crash())
    for expected, floor in (([*events, b"one more"], None), ([b"?", *events[1:]], 1)):
        with pytest.raises(AssertionError, match="silent") as caught:
            examine_damaged(disk.after_process_crash(), expected, floor)
        assert caught.value.breach == "silent"


def test_a_sector_can_be_damaged_in_a_file_that_ends_inside_it():
    """The last sector of a file is filled to its end, and the file does not grow."""
    disk = plain_log()
    size = file_sizes(disk)["LOCK"]
    FillSector("LOCK", 0, b"\xff" * 512).apply(disk)
    assert read_file(disk, f"{LOG}/LOCK") == b"\xff" * size
