"""Sending a run's log to an archive: what is new, each file read back, and the manifest last of all."""

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from eventlog.errors import EventLogError, LogLost, LogTampered, Problem
from eventlog.storage import DurableLog, log_exists

from ..errors import RunFailed, UsageFault
from .local import LocalFile, digest_of, local_files
from .manifest import FORMAT, MANIFEST, Entry, Manifest
from .stores import ObjectMissing, Store, StoreFault, open_store, read_manifest, reason_of, refuse_foreign

_LOOKS = 10  # a writer compresses a segment behind our back: each only once, but there are many
_FIRST_DIGITS = 12


class Archived(msgspec.Struct):
    """What an archive holds now, and what had to be sent for it; `removed` objects are needed no more."""

    place: str
    manifest: Manifest
    sent: list[Entry]
    removed: int

    @property
    def sent_bytes(self) -> int:
        """The size of what was sent."""
        return sum(entry.bytes for entry in self.sent)


def archive_run(
    directory: Path, place: str, say: Callable[[str], None] = lambda _: None, *, check: bool = False
) -> Archived:
    """Bring the archive at `place` up to what is durable in the run in `directory`, which is not touched.

    `say` hears of each file that was sent. The one before holds until the new manifest is written. With
    `check` what was sent earlier is read back once more, and sent again if it is not whole.

    Raises:
        UsageFault: there is another log's archive, or none can be there.
        LogLost: the log ends before its archive: it was cut. LogTampered: it has another history.
        RunFailed: the store, or the disk, failed; what was sent is kept, and not sent again.
        EventLogError: the log cannot be read.
    """
    store = open_store(place)
    root = Path(place).resolve()  # a/../b is b also where there is no a
    if log_exists(root / "log") or log_exists(root):
        raise UsageFault(f"{place} holds a run", "give the archive a directory of its own")
    refuse_foreign(place)
    sender = _Sender(directory, store, say, check=check)
    for _ in range(_LOOKS):
        try:
            return sender.send()
        except FileNotFoundError as error:
            gone = error
        except (StoreFault, OSError) as error:
            raise _stopped(error, place, sender.sent) from error
    raise RunFailed(f"the segments of {directory} are replaced again and again: {gone}", "try again")


def _stopped(error: StoreFault | OSError, place: str, sent: list[Entry]) -> RunFailed:
    why = str(error) if isinstance(error, StoreFault) else reason_of(error)
    size = sum(entry.bytes for entry in sent)
    return RunFailed(
        f"{why}; before that {len(sent)} files with {size:,} bytes were sent to {place}",
        "an archive that was there is as it was; the same command goes on where this one ended",
    )


class _Sender:
    """One archiving. `sent` grows file by file, also over several looks at the log."""

    def __init__(self, directory: Path, store: Store, say: Callable[[str], None], *, check: bool) -> None:
        self.sent: list[Entry] = []
        self._directory = directory
        self._store = store
        self._say = say
        self._check = check

    def send(self) -> Archived:
        before = read_manifest(self._store)
        log = DurableLog.look(self._directory / "log")
        if before is not None:
            _check_continues(before, log, self._store.place)
        files = local_files(self._directory / "log", log)
        entries = [file.entry() for file in files]
        there = self._store.sizes()
        trusted = set() if before is None or self._check else {entry.object for entry in before.files}
        for file, entry in zip(files, entries, strict=True):
            self._bring(file, entry, there, trusted)
        unwanted = there.keys() - {entry.object for entry in entries}
        gone = unwanted & set(before.spare) if before is not None else set()
        manifest = Manifest(
            format=FORMAT,
            run=self._directory.resolve().name,
            log_id=log.log_id.hex(),
            sequence=log.reader.end.sequence,
            chain=log.reader.end.chain.hex(),
            files=entries,
            spare=sorted(unwanted - gone),
        )
        self._finish(before, manifest)
        self._store.remove(sorted(gone))
        return Archived(self._store.place, manifest, self.sent, len(gone))

    def _bring(self, file: LocalFile, entry: Entry, there: dict[str, int], trusted: set[str]) -> None:
        """See that the store holds this file; what a broken upload has left there is looked at first."""
        if there.get(entry.object) == entry.bytes and (entry.object in trusted or self._holds(entry)):
            return
        self._store.write(entry.object, file.pieces(), entry.bytes)
        if not self._holds(entry):
            raise StoreFault(
                f"{entry.object} is not in {self._store.place} as it was sent: it was read back and differs",
                "verify the run, and ask whoever keeps the store",
            )
        self.sent.append(entry)
        self._say(f"sent {entry.name}, {entry.bytes:,} bytes")

    def _holds(self, entry: Entry) -> bool:
        try:
            return digest_of(self._store.read(entry.object)) == (entry.sha256, entry.bytes)
        except ObjectMissing:
            return False

    def _finish(self, before: Manifest | None, manifest: Manifest) -> None:
        """Write the manifest. Only then goes what the one before had found spare already.

        So what a reader of the old manifest may be reading just now stays until the next time.
        """
        data = manifest.encode()
        if before is not None and data == before.encode():
            return
        self._store.write(MANIFEST, iter([data]), len(data))
        if b"".join(self._read_manifest()) != data:
            raise StoreFault(
                f"{MANIFEST} in {self._store.place} was read back and differs", "archive the run again"
            )

    def _read_manifest(self) -> Iterator[bytes]:
        try:
            yield from self._store.read(MANIFEST)
        except ObjectMissing:
            return


def _check_continues(before: Manifest, log: DurableLog, place: str) -> None:
    """The log must be the archive's, and hold all that is there.

    Raises:
        UsageFault, LogLost, LogTampered: it does not.
    """
    ours, theirs, end = log.log_id.hex(), before.log_id, log.reader.end
    if ours != theirs:
        raise UsageFault(
            f"{place} is the archive of another log: of run {before.run}, {theirs[:_FIRST_DIGITS]}…, and "
            f"this one is {ours[:_FIRST_DIGITS]}…",
            "give this run a place of its own",
        )
    if end.sequence < before.sequence:
        what = f"the log ends at event {end.sequence}, and its archive in {place} at event {before.sequence}"
        raise LogLost(
            f"{what}: events are gone that were there. Nothing was sent. "
            f"`evrun archive --restore {place} DIR` brings back the run as it was archived.",
            Problem(log.files[-1].name, log.files[-1].used_bytes, end.sequence, before.sequence, what),
        )
    try:
        same = log.reader.chain_at(before.sequence) == before.position.chain
    except EventLogError:
        same = False
    if not same:
        what = f"the log has another history up to event {before.sequence} than its archive in {place}"
        raise LogTampered(
            f"{what}: both went on from one beginning, or one was changed. Nothing was sent; give this one a "
            "place of its own, and find out which is the right one.",
            Problem(log.files[-1].name, 0, 0, before.sequence, what),
        )
