"""What a power loss can leave of a simulated disk: the un-synced things, and every way they may turn out."""

import itertools
import math
from collections.abc import Iterator, Sequence
from random import Random

from .disk import (
    ROOT,
    SECTOR_BYTES,
    ZERO_SECTOR,
    Disk,
    NameChange,
    UncertainSector,
    UncertainSize,
    copy_entries,
)

_Item = UncertainSector | UncertainSize | NameChange
_GARBAGE = -1  # the choice that stands for no version of the sector


def unsynced_items(disk: Disk) -> list[_Item]:
    """Return everything a power loss may decide: each change of names, each sector, each size."""
    named = {change.added.inode for change in disk.unsynced_names if change.added is not None}
    for names in (*disk.entries.values(), *disk.durable_entries.values()):
        named.update(names.values())
    items: list[_Item] = list(disk.unsynced_names)
    for inode in sorted(named & disk.files.keys()):  # a file without any name is lost whatever happens
        items.extend(disk.files[inode].uncertain(inode))
    return items


def disks_after_power_loss(disk: Disk, limit: int, rng: Random) -> Iterator[Disk]:
    """Yield disks a power loss may leave: all combinations if they are at most `limit`, else `limit` of them.

    When there are too many, the first ones are: nothing un-synced survived, all of it did, and for each item
    it alone was lost and it alone survived; then random ones. What garbage looks like is random in any case.
    """
    items = unsynced_items(disk)
    choices = [_choices(item) for item in items]
    if math.prod(len(options) for options in choices) <= limit:
        picks: Iterator[Sequence[int]] = itertools.product(*choices)
    else:
        picks = itertools.islice(_corners_then_random(choices, rng), limit)
    for pick in picks:
        yield _image(disk, items, pick, rng)


def _choices(item: _Item) -> list[int]:
    """Number the states of an item: 0 is what is durable, then the versions in order, then garbage."""
    match item:
        case NameChange():
            return [0, 1]
        case UncertainSize():
            return list(range(len(item.sizes)))
        case UncertainSector():
            return [*range(len(item.versions)), _GARBAGE]


def _corners_then_random(choices: list[list[int]], rng: Random) -> Iterator[Sequence[int]]:
    lost = [0 for _ in choices]
    kept = [max(options) for options in choices]
    yield lost
    yield kept
    for position in range(len(choices)):
        yield [*kept[:position], 0, *kept[position + 1 :]]
        yield [*lost[:position], kept[position], *lost[position + 1 :]]
    while True:
        yield [rng.choice(options) for options in choices]


def _image(disk: Disk, items: Sequence[_Item], pick: Sequence[int], rng: Random) -> Disk:
    image = Disk(
        {}, copy_entries(disk.durable_entries), {}, [], disk.next_inode, disk.capacity_bytes, disk.lies_about
    )
    sizes = {inode: file.durable_size for inode, file in disk.files.items()}
    sectors: dict[int, dict[int, bytes]] = {inode: {} for inode in disk.files}
    for item, choice in zip(items, pick, strict=True):
        match item:
            case NameChange():
                if choice:
                    item.apply(image.entries)
            case UncertainSize():
                sizes[item.inode] = item.sizes[choice]
            case UncertainSector():
                content = _garbage(disk, item, rng) if choice == _GARBAGE else item.versions[choice]
                sectors[item.inode][item.sector] = content
    _keep_reachable_directories(image)
    for inode in {inode for names in image.entries.values() for inode in names.values()} & disk.files.keys():
        image.files[inode] = disk.files[inode].certain()
        image.files[inode].settle(sizes[inode], sectors[inode])
    return image


def _keep_reachable_directories(image: Disk) -> None:
    """Drop directories whose own name was lost, with all that is in them, and call the rest durable."""
    reached: dict[int, dict[str, int]] = {}
    waiting = [ROOT]
    while waiting:
        directory = waiting.pop()
        reached[directory] = image.entries[directory]
        waiting.extend(inode for inode in reached[directory].values() if inode in image.entries)
    image.entries, image.durable_entries = reached, copy_entries(reached)


def _garbage(disk: Disk, item: UncertainSector, rng: Random) -> bytes:
    """Make up a sector: noise, zeros, a torn write, or another sector of the same file.

    The last two are the garbage that a careless reader takes for the real thing.
    """
    noise = rng.randbytes(SECTOR_BYTES)
    newest = item.versions[-1]
    cut = rng.randrange(1, SECTOR_BYTES)
    elsewhere = rng.choice([*disk.files[item.inode].sectors.values(), noise])
    torn = (newest[:cut] + noise[cut:], newest[:cut] + item.versions[0][cut:])
    made_up = rng.choice((noise, ZERO_SECTOR, elsewhere, *torn))
    return noise if made_up in item.versions else made_up
