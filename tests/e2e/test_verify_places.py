"""`evrun verify` on a real run's log with a place flipped, zeroed, overwritten or cut: none is silent."""

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from eventlog.storage import LogReader, Record
from eventlog.storage.header import parse_segment_header
from eventlog.storage.scan import walk
from eventlog.storage.source import open_source
from tests.cli.shell import evrun, evrun_process
from tests.e2e.case import Case, hang
from tests.endpoint.client import running_endpoint
from tests.eventlog.logs import Unsynced
from tests.runs import kill, start, wait_until

PLACES = 120
AS_PROCESS = 5
SECTOR = 512


class Damage(NamedTuple):
    """What is done to a file: which bytes, and what they become. Empty: it is cut there."""

    name: str
    at: int
    new: bytes

    def apply(self, data: bytes) -> bytes:
        """The damaged bytes."""
        return data[: self.at] + (self.new + data[self.at + len(self.new) :] if self.new else b"")


@pytest.fixture(scope="module", name="real")
def _real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 20 prompts, killed with four calls out, and finished by a second session: its directory.

    So few that no session fills its first segment: else it would depend on the moment what is compressed. All
    that are in flight hang from the twelfth prompt on: the second session always has eight to answer.
    """
    directory = tmp_path_factory.mktemp("real")
    hanging = [hang(contains=f"number {n},") for n in range(12, 16)]
    with running_endpoint(rules=hanging) as endpoint:
        case = Case(directory, endpoint)
        case.write(*(f"prompt number {n}, which asks for something" for n in range(20)))
        process = start(*case.command("--concurrency", 4), cwd=directory)
        wait_until(
            lambda: endpoint.totals()["answered"] == 12 and endpoint.totals()["faults"] == 4, "four calls out"
        )
        kill(process)
        assert case.resume().code == 0
    return case.run_directory


def records_in(log: Path, **options: bool) -> list[Record]:
    """Every event as a reader gives it."""
    with LogReader.open(log, filesystem=Unsynced(), **options) as reader:
        return list(reader.read())


def damages(log: Path, seed: int, count: int) -> Iterator[Damage]:
    """So many places, over all files; three of four lie among the bytes that say something."""
    rng = Random(seed)
    files = sorted(path for path in log.iterdir() if path.is_file())
    for _ in range(count):
        path = rng.choice(files)
        data = path.read_bytes()
        at = rng.randrange(len(data.rstrip(b"\0")) if rng.random() < 0.75 else len(data))
        size = min(rng.choice((1, 64, SECTOR, 4096)), len(data) - at)
        kind = rng.choice(("flip", "zero", "garbage", "cut"))
        new = {
            "flip": bytes([data[at] ^ 1 << rng.randrange(8)]),
            "zero": bytes(size),
            "garbage": rng.randbytes(size),
            "cut": b"",
        }
        yield Damage(path.name, at, new[kind])


def copy_of(real: Path, into: Path, *, compacted: bool) -> Path:
    """A run to be damaged."""
    run = into / "r"
    shutil.copytree(real, run)
    if compacted:
        assert evrun("compact", run, cwd=into).code == 0
        assert list((run / "log").glob("*.evz"))
        assert not list((run / "log").glob("*.evl"))
    return run


@pytest.mark.parametrize("compacted", [False, True], ids=["as it was written", "compacted"])
def test_no_damaged_place_of_a_real_log_is_silent(real: Path, tmp_path: Path, *, compacted: bool) -> None:
    """Exit 0 only with the very events that were written; else exit 5 and a place. Nothing is changed."""
    run = copy_of(real, tmp_path, compacted=compacted)
    log = run / "log"
    original = records_in(real / "log")
    assert records_in(log) == original
    codes: Counter[int] = Counter()
    for number, damage in enumerate(damages(log, seed=3 + compacted, count=PLACES)):
        path = log / damage.name
        whole = path.read_bytes()
        path.write_bytes(damage.apply(whole))
        ask = evrun_process if number < AS_PROCESS else evrun
        said = ask("verify", run, "--json", cwd=tmp_path)
        codes[said.code] += 1
        if said.code == 0:
            assert said.json["class"] in ("clean", "torn"), damage
            assert records_in(log) == original, damage
        else:
            assert (said.code, said.json["class"]) in [
                (5, kind) for kind in ("lost", "unreadable", "unsupported")
            ], damage
            assert said.json["problem"]["what"], damage
            for command in ("events", "status"):
                assert evrun(command, run, "--json", cwd=tmp_path)[:2] == (5, ""), damage
        assert path.read_bytes() == damage.apply(whole), damage
        path.write_bytes(whole)
    assert codes.total() == PLACES
    assert codes[5] > PLACES // 4
    assert records_in(log) == original


def frame_offsets(log: Path) -> list[tuple[int, int]]:
    """Where each frame of the last segment begins, and the last event before it."""
    with LogReader.open(log, filesystem=Unsynced()) as reader:
        segment = reader._catalog.segments[-1]
    found = []
    with open_source(Unsynced(), str(log), segment.name) as source:
        header = parse_segment_header(source.read(0, 4096))
        place = segment.index.find(header.base_sequence)
        for frame, _, _ in walk(source, header.stamp, place, header.allocated_bytes):
            found.append((frame.offset_bytes, frame.first_sequence - 1))
    return found


def test_without_head_only_the_newest_commits_can_go_unseen(real: Path, tmp_path: Path) -> None:
    """The residual of the design: damage that takes the newest commit and all that tells of it.

    A watermark in any later frame that is whole promises what was before it. So what is missing at exit 0
    begins in the damaged bytes, and so does every frame behind it.
    """
    run = copy_of(real, tmp_path, compacted=False)
    log = run / "log"
    (log / "HEAD").unlink()
    original = records_in(log)
    frames = frame_offsets(log)
    last = max(log.glob("*.evl"))
    whole = last.read_bytes()
    rng = Random(7)
    unseen = 0
    for _ in range(PLACES):
        at = rng.randrange(frames[-min(6, len(frames))][0], len(whole.rstrip(b"\0")))
        new = rng.choice((bytes, rng.randbytes))(rng.choice((1, 64, SECTOR, 4096)))
        last.write_bytes(Damage(last.name, at, new).apply(whole))
        said = evrun("verify", run, "--json", cwd=tmp_path)
        if said.code == 0:
            found = records_in(log)
            assert found == original[: len(found)]
            missing = [offset for offset, before in frames if before >= len(found)]
            assert all(offset + 104 > at for offset in missing[1:])
            assert all(offset < at + len(new) for offset in missing)
            unseen += found != original
        else:
            assert said.code == 5
    assert unseen > 0, "no place took the newest commit: this test looks elsewhere"


def test_an_anchor_sees_what_the_residual_does_not(real: Path, tmp_path: Path) -> None:
    """The newest commit zeroed and HEAD gone: clean in itself, and not what the anchor knows."""
    run = copy_of(real, tmp_path, compacted=False)
    noted = evrun("verify", run, "--json", cwd=tmp_path).json
    anchor = f"{noted['sequence']}:{noted['chain']}"
    assert evrun("verify", run, "--anchor", anchor, cwd=tmp_path).code == 0
    (run / "log/HEAD").unlink()
    last = max((run / "log").glob("*.evl"))
    data = last.read_bytes()
    last.write_bytes(data[: frame_offsets(run / "log")[-1][0]].ljust(len(data), b"\0"))
    assert evrun("verify", run, cwd=tmp_path).code == 0
    said = evrun_process("verify", run, "--anchor", anchor, "--json", cwd=tmp_path)
    assert (said.code, said.json["class"]) == (5, "tampered")


def test_a_salvaged_real_run_is_resumed(real: Path, tmp_path: Path) -> None:
    """Flip a byte of an answer, salvage, resume: every prompt is answered in the end, some of them again."""
    run = copy_of(real, tmp_path / "data", compacted=False)
    path = min((run / "log").glob("*.evl"))
    data = bytearray(path.read_bytes())
    # The second session's first answer: at most four share its frame, and four more are settled behind it.
    data[data.index(b"Answer to prompt number ")] ^= 1
    path.write_bytes(data)
    said = evrun_process("salvage", "r", "--out", "data/saved", "--json", cwd=tmp_path)
    assert (said.code, said.err) == (3, "")
    assert said.json["unproven"]["calls_settled"] > 0
    with running_endpoint() as endpoint:
        again = evrun_process(
            "run", "--run-name", "saved", "--resume", "--json", "--base-url", endpoint.base_url, cwd=tmp_path
        )
        assert (again.code, again.json["counts"]["kept"]) == (0, 20), again
        assert 0 < len(endpoint.requests()) < 20
    assert evrun("verify", "saved", cwd=tmp_path).code == 0
    assert evrun("replay", "saved", "--check", cwd=tmp_path).code == 0
    audit = evrun("audit", "saved", "--json", cwd=tmp_path)
    assert audit.code == 0
