"""Small file systems in image files, mounted through a loop device, and cut off as by a power failure.

A power cut is a copy of the image while it is mounted and dirty: what the kernel still had in memory is not
in it, and mounting it begins with the file system's own recovery.
"""

import os
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from tests.system.processes import DEADLINE_S

MEGABYTE = 1 << 20
MAKE = {
    "ext4": (32, ["mkfs.ext4", "-q", "-F"]),
    "xfs": (320, ["mkfs.xfs", "-q"]),
    "btrfs": (128, ["mkfs.btrfs", "-q"]),
}
# What the probe of scripts/test-system found to work here; all of them where nobody probed.
FILE_SYSTEMS = os.environ.get("EVRUN_FILE_SYSTEMS", " ".join(MAKE)).split()
# Where to mount: not on the file system on which the images lie. When a name space of mounts ends at once,
# each of the two would hold the other, and the kernel would keep both, and the loop device, for ever.
MOUNTS = os.environ.get("EVRUN_MOUNTS")
CUTS = int(os.environ.get("EVRUN_CUTS", "10"))  # for each file system


def command(*words):
    """Run a system command, which has to succeed."""
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


class Image:
    """One file system in a file, mounted at most once at a time."""

    def __init__(self, path, at):
        self.path = path
        self.at = at
        self.device = ""

    @classmethod
    def make(cls, kind, directory):
        """Make an empty file system."""
        megabytes, make = MAKE[kind]
        image = cls(directory / f"{kind}.image", Path(tempfile.mkdtemp(dir=MOUNTS, prefix="mounted-")))
        with image.path.open("wb") as file:
            file.truncate(megabytes * MEGABYTE)
        command(*make, image.path)
        return image

    def __enter__(self):
        """Mount it. The loop device goes when it is unmounted, whoever does that."""
        command("mount", "-o", "loop", self.path, self.at)
        mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
        self.device = next(words[0] for words in reversed(mounts) if words[1] == str(self.at))
        return self

    def __exit__(self, *_):
        command("umount", self.at)
        # A lazy last user of the device would make the next mount meet the old file system.
        deadline = time.monotonic() + DEADLINE_S
        while self.path.name in self.backing() and time.monotonic() < deadline:
            time.sleep(0.002)

    def backing(self):
        """The file behind the loop device, or nothing."""
        try:
            return self.loop("loop/backing_file")
        except OSError:
            return ""

    def loop(self, name):
        """What the kernel says about the loop device."""
        return Path(f"/sys/block/{self.device.rpartition('/')[2]}/{name}").read_text()

    def traffic(self):
        """How much was written to the device, and what is under way."""
        numbers = self.loop("stat").split()
        return [numbers[at] for at in (4, 6, 8, 11, 13, 15) if at < len(numbers)]

    def cut(self, name):
        """Copy it as it is on the disk now. Nothing is synced for that.

        A copy during which the kernel itself wrote something is no moment of the disk: then once more.
        """
        copy = Image(self.path.with_name(name), self.at)
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            before = self.traffic()
            command("cp", "--sparse=always", self.path, copy.path)
            if before == self.traffic() and before[2] == "0":
                return copy
        raise AssertionError(f"{self.device} never came to rest: {before}")

    def forget(self):
        """Remove the file."""
        self.path.unlink()


@contextmanager
def in_memory(directory, kibibytes):
    """A tmpfs of this size, mounted."""
    directory.mkdir()
    command("mount", "-t", "tmpfs", "-o", f"size={kibibytes}k,mode=777", "evrun", directory)
    try:
        yield directory
    finally:
        command("umount", directory)
