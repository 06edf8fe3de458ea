"""The order in which a writer has to ask the disk for things, held against a trace of its system calls."""

from pathlib import PurePath

from tests.system.strace import RENAMES, SYNCS, UNLINKS, WRITES

NEW = ".new"


def is_segment(path):
    """Whether this is a segment with its name."""
    return path.endswith((".evl", ".evz"))


def is_compression(path):
    """Whether only compression works on this, on which no acknowledgement rests."""
    return ".evz" in path or "/torn" in path


def is_new(path):
    """Whether this is a segment that has no name yet."""
    return path.endswith(NEW)


class Order:
    """What is not synced yet, call by call, and what was done too early.

    `files` maps a segment to its last unsynced write, `names` a directory to a name in it that is not synced.
    """

    def __init__(self):
        self.files = {}
        self.names = {}
        self.poisoned = set()
        self.twins = set()
        self.synced_directories = set()
        self.objections = []

    def object(self, call, what):
        """Note one thing done too early."""
        self.objections.append(f"line {call.ended}: {call.text}: {what}")

    def take(self, call):
        """Take in the next call."""
        if call.name == "write":
            self.said(call)
        elif call.name in SYNCS:
            self.synced(call)
        elif call.failed:
            return
        elif call.name in WRITES:
            self.written(call)
        elif call.name in RENAMES:
            self.renamed(call)
        elif call.name in UNLINKS and call.path.endswith(".evl"):
            self.unlinked(call)
        elif call.name == "mkdir" or ("O_CREAT" in call.text and not is_new(call.path)):
            self.names.setdefault(str(PurePath(call.path).parent), call)

    def said(self, call):
        """An acknowledgement: all it rests on is durable."""
        if '"A ' not in call.text:
            return
        for path in self.files:
            if not is_compression(path):
                self.object(call, f"{path} is not synced")
        for path, earlier in self.names.items():
            if not is_compression(earlier.path):
                self.object(call, f"names in {path} are not synced")

    def synced(self, call):
        """A sync: takes what was written before it began; after one that failed there is no other."""
        # Compression of one segment may fail while the next one's is still to come.
        handle = call.path if is_compression(call.path) else call.thread
        if handle in self.poisoned:
            self.object(call, "a sync after a failed one")
        if call.failed or call.result == "?":
            self.poisoned.add(handle)
            return
        self.synced_directories.add(call.path)
        for pending in (self.files, self.names):
            if call.path in pending and pending[call.path].ended < call.begun:
                if call.name == "fdatasync" and is_new(call.path):
                    continue  # not enough before a new name
                del pending[call.path]

    def written(self, call):
        """A write: to a new segment or to HEAD only when the segments are synced."""
        if is_segment(call.path):
            self.files[call.path] = call
        elif is_new(call.path):
            self.no_unsynced_segment(call)
            self.files[call.path] = call
        elif call.path.endswith("HEAD") and call.name == "pwrite64":
            self.no_unsynced_segment(call)
            self.no_unsynced_rename(call)

    def no_unsynced_segment(self, call):
        """What vouches for a segment is written after that segment's sync."""
        for path in self.files:
            if is_segment(path):
                self.object(call, f"{path} is not synced")

    def no_unsynced_rename(self, call):
        """What vouches for a segment is written after its name is durable."""
        for path, earlier in self.names.items():
            if earlier.name in RENAMES and earlier.thread == call.thread:
                self.object(call, f"names in {path} are not synced")

    def renamed(self, call):
        """A new segment gets its name when its content is durable."""
        if call.path in self.files:
            self.object(call, "its content is not synced")
        self.names[str(PurePath(call.target).parent)] = call
        self.twins.add(call.target)

    def unlinked(self, call):
        """A plain segment goes when its twin has its name, and for good."""
        self.no_unsynced_rename(call)
        twin, directory = call.path.removesuffix("l") + "z", str(PurePath(call.path).parent)
        if twin not in self.twins and directory not in self.synced_directories:
            self.object(call, "the name of its twin may not be durable")


def objections(calls):
    """What a trace did too early; empty when it kept the order."""
    order = Order()
    for call in calls:
        order.take(call)
    return order.objections
