"""Helpers of the tests that look at view files."""

import json

from eventlog.events import SessionOpened
from projections import check, rebuild, recorded

from .histories import answered, begun, kept, name_of, planned, reserve, spent, started


def files(directory):
    """The view files of a directory and what is in them."""
    return {entry.name: entry.read_bytes() for entry in directory.iterdir() if entry.is_file()}


def rebuilt(reader, place, to_sequence=None):
    """What the views ought to be."""
    rebuild(reader, place, to_sequence)
    return files(place)


def why(reader, directory):
    """The files that are not as the log says, and why."""
    return {one.path: one.why for one in check(reader, directory) if not one.same}


class Ticking:
    """A clock for `refresh` that goes a day further at each look, so that everything is always due."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        """The time."""
        self.now += 86_400
        return self.now


def finished_unit(index, end=kept, attempt=1):
    """The commits of one prompt from start to end, with one answered call."""
    unit, call = name_of(index), f"c{index}.{attempt}"
    return [
        [begun(unit, attempt), reserve(call, unit, attempt)],
        [spent(call), answered(call, f"answer {index}.{attempt}", "hm")],
        [end(unit, attempt)],
    ]


def opening(prompts=6):
    """The commits that begin a run."""
    return [[SessionOpened(1, 1, "host", "0"), started(), planned(prompts)]]


def follow(views, reader):
    """Apply what became durable since, as the runner does."""
    for record in recorded(reader, views.state.sequence + 1):
        views.apply(record)


def indexes(data):
    """The `prompt_index` of each row."""
    return [json.loads(line)["prompt_index"] for line in data.splitlines()]
