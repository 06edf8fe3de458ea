"""archive.json, the last thing that is written: what an archive holds, and up to which event."""

import hashlib
import re
from typing import Any, Final

import msgspec

from eventlog.errors import LogLost, LogUnsupported, Problem
from eventlog.storage import Position

MANIFEST: Final = "archive.json"
FILES: Final = "files/"
FORMAT: Final = 1
_MEND: Final = "`evrun archive RUN DEST --check` sends again what is not whole"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_HEXADECIMAL = re.compile(r"[0-9a-f]+")


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One file of the log: its first `bytes` are stored, up to `file_bytes` zeros follow."""

    name: str
    bytes: int
    file_bytes: int
    sha256: str

    @property
    def object(self) -> str:
        """Where it is stored. The digest is in the name, so nothing is ever written over."""
        return f"{FILES}{self.name}.{self.sha256}"


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The archive of one log up to an event. What is `spare` goes the next time, if it still is."""

    format: int
    run: str
    log_id: str
    sequence: int
    chain: str
    files: list[Entry]
    spare: list[str] = []
    checksum: str = ""

    @property
    def position(self) -> Position:
        """The last event, and the chain there."""
        return Position(self.sequence, bytes.fromhex(self.chain))

    @property
    def stored_bytes(self) -> int:
        """The size of all its files together, as they are stored."""
        return sum(entry.bytes for entry in self.files)

    def encode(self) -> bytes:
        """Its bytes, with the checksum of all the rest in them."""
        return _encoded(msgspec.structs.replace(self, checksum=_checksum(self)))


def parse_manifest(data: bytes, place: str) -> Manifest:
    """The manifest in `data`.

    Raises:
        LogUnsupported: a newer evrun wrote it.
        LogLost: it is not what was written.
    """
    try:
        known = msgspec.json.decode(data, type=dict[str, Any]).get("format")
        if isinstance(known, int) and known > FORMAT:
            what = f"the archive {place} is of format {known}, and this evrun knows {FORMAT}"
            raise LogUnsupported(f"{what}: upgrade evrun", Problem(MANIFEST, 0, 0, 0, what))
        manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _damaged(place, f"it is no manifest: {error}") from error
    if manifest.checksum != _checksum(manifest):
        raise _damaged(place, "its checksum is another one")
    if not _is_sane(manifest):
        raise _damaged(place, "it names files that no log has")
    return manifest


def damage(place: str, file: str, what: str, promised: int) -> LogLost:
    """The refusal of an archive that is not what was put there."""
    said = f"{file} {what}"
    mend = f"remove {MANIFEST} and archive the run again" if file == MANIFEST else _MEND
    return LogLost(
        f"The archive {place} is damaged: {said}. Nothing was changed. If the run is still there, {mend}.",
        Problem(file, 0, 0, promised, said),
    )


def _damaged(place: str, what: str) -> LogLost:
    return damage(place, MANIFEST, f"cannot be believed: {what}", 0)


def _is_sane(manifest: Manifest) -> bool:
    hexadecimal = [manifest.log_id, manifest.chain, *(entry.sha256 for entry in manifest.files)]
    spare = [name.removeprefix(FILES) for name in manifest.spare]
    return (
        all(_NAME.fullmatch(entry.name) for entry in manifest.files)
        and all(_NAME.fullmatch(name) for name in spare)
        and all(_HEXADECIMAL.fullmatch(text) for text in hexadecimal)
        and all(0 <= entry.bytes <= entry.file_bytes for entry in manifest.files)
        and "/" not in manifest.run
        and manifest.run not in {"", ".", ".."}
    )


def _checksum(manifest: Manifest) -> str:
    return hashlib.sha256(_encoded(msgspec.structs.replace(manifest, checksum=""))).hexdigest()


def _encoded(manifest: Manifest) -> bytes:
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"
