"""`examples/verify_log.py`: a verifier that a stranger wrote from FORMAT.md, run as a stranger runs it."""

import ast
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from eventlog.storage import compact, verify

from .forger import commits_of, forge, positions_of
from .logs import Unsynced, segments_of, write_log

SCRIPT = Path(__file__).parents[2] / "examples" / "verify_log.py"
COMMITS = ([b"first"], [b"second", b"", b"third" * 9], [b"fourth" * 40], [b"fifth"])
# The fields of a frame's header that the chain does not cover and nothing else repeats: the watermark (a
# smaller one is legal), and the two checksums.
ONLY_CHECKSUMS = (*range(32, 40), *range(88, 104))


@pytest.fixture(name="log")
def _log(tmp_path):
    """A log of two sessions, hence two segments."""
    directory = tmp_path / "log"
    write_log(directory, *COMMITS[:2])
    write_log(directory, *COMMITS[2:])
    return directory


def run(log, *anchor):
    """The script as a process of its own, isolated from everything that is installed beside Python."""
    command = [sys.executable, "-I", "-S", str(SCRIPT), str(log), *anchor]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def says(log, anchor=None):
    """What the script's function says, without a process; None when the log is not whole."""
    try:
        return module.verify(log, anchor)
    except module.Broken:
        return None


_spec = importlib.util.spec_from_file_location("verify_log", SCRIPT)
module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(module)


def test_it_imports_the_standard_library_alone():
    """And is short enough to be read before it is trusted."""
    tree = ast.parse(SCRIPT.read_text("utf-8"))
    names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert set(names) <= sys.stdlib_module_names
    assert len(SCRIPT.read_text("utf-8").splitlines()) < 140


def test_a_whole_log_is_whole(log):
    """Exit 0 with the position that `evrun verify` finds."""
    position = verify(log).position
    done = run(log)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"whole: {position.sequence}:{position.chain.hex()}\n"


def test_many_segments_with_seals_are_followed(tmp_path):
    """Rolls and sessions, from end to end."""
    for session in range(3):
        write_log(tmp_path, *([bytes([session, n]) * 700, b"x"] for n in range(20)))
    assert len(segments_of(tmp_path)) > 5
    assert run(tmp_path).stdout == "whole: 120:" + verify(tmp_path).position.chain.hex() + "\n"


def test_a_torn_tail_is_whole_and_said(log):
    """What a crash left was never acknowledged."""
    last = segments_of(log)[-1]
    data = bytearray(last.read_bytes())
    used = len(bytes(data).rstrip(b"\0"))
    data[used + 700 : used + 709] = b"half of a"
    last.write_bytes(data)
    done = run(log)
    assert done.returncode == 0
    assert done.stdout.endswith("torn bytes behind it\n")


def test_a_lost_commit_is_found_as_a_process_says_it(log):
    """Exit 5, and where."""
    path = segments_of(log)[0]
    data = bytearray(path.read_bytes())
    data[data.index(b"second")] ^= 1
    path.write_bytes(data)
    done = run(log)
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr.startswith("NOT whole: ")
    assert f"at byte {4096 + 512} of {path.name}, behind event 1" in done.stderr


def test_no_flipped_bit_of_a_body_or_a_logical_header_is_missed(log):
    """Every bit of every frame but of what only xxh3 covers, and of the headers where they matter."""
    for path in segments_of(log):
        data = path.read_bytes()
        used = len(data.rstrip(b"\0"))
        frames = [at for at in range(4096, used, 512) if data[at : at + 4] == b"\xe5EVF"]
        checksums = {at + n for at in frames for n in ONLY_CHECKSUMS}
        header = [*range(56), *range(72, 128)]  # but the salt and the allocated size
        header.remove(10)
        header.remove(11)  # a larger minor version is readable
        header.remove(55)  # whether the file was preallocated shows only when it is cut
        for at in [*header, *(place for place in range(4096, used) if place not in checksums)]:
            for bit in range(8) if data[at] else (at % 8,):
                path.write_bytes(data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :])
                assert says(log) is None, (path.name, at, bit)
        path.write_bytes(data)
    assert says(log) is not None


@pytest.mark.parametrize("seed", range(60))
def test_whatever_it_calls_whole_the_real_one_does_not_call_shorter(log, seed):
    """Random damage: where it says whole, every event is there."""
    rng = Random(seed)
    position = verify(log).position
    path = rng.choice(segments_of(log))
    data = bytearray(path.read_bytes())
    at, size = rng.randrange(len(data)), rng.choice((1, 64, 512, 4096))
    data[at : at + size] = rng.choice((bytes, rng.randbytes))(len(data[at : at + size]))
    path.write_bytes(data)
    said = says(log)
    if said is not None:
        assert said.startswith(f"whole: {position.sequence}:{position.chain.hex()}")


def delete_first(log):
    """The first segment is gone."""
    segments_of(log)[0].unlink()


def delete_last(log):
    """The last segment is gone."""
    segments_of(log)[-1].unlink()


def cut_last(log):
    """The last segment is shorter."""
    path = segments_of(log)[-1]
    path.write_bytes(path.read_bytes()[:6000])


def zero_last(log):
    """The newest commit is zeros; HEAD knows it."""
    path = segments_of(log)[-1]
    data = path.read_bytes()
    path.write_bytes(data[: data.rindex(b"\xe5EVF")].ljust(len(data), b"\0"))


def duplicate(log):
    """The last segment is there once more, as the next."""
    last = segments_of(log)[-1]
    shutil.copy(last, last.with_name(last.name.replace("00000002.evl", "00000003.evl")))


def another_logs_segment(log):
    """The last segment is another log's."""
    write_log(log.parent / "another", *COMMITS[:2])
    write_log(log.parent / "another", *COMMITS[2:])
    shutil.copy(segments_of(log.parent / "another")[-1], segments_of(log)[-1])


def another_logs_head(log):
    """HEAD is another log's."""
    write_log(log.parent / "another", *COMMITS)
    shutil.copy(log.parent / "another/HEAD", log / "HEAD")


def compressed(log):
    """Nobody can unpack it with the standard library of today."""
    compact(log, random_bytes=Random(1).randbytes, filesystem=Unsynced())


def nothing(log):
    """There is no log."""
    shutil.rmtree(log)
    log.mkdir()


@pytest.mark.parametrize(
    "damage",
    [
        delete_first,
        delete_last,
        cut_last,
        zero_last,
        duplicate,
        another_logs_segment,
        another_logs_head,
        compressed,
        nothing,
    ],
    ids=lambda damage: damage.__name__,
)
def test_what_is_not_whole_ends_with_5(log, damage):
    """Files that are missing, cut, mixed up, or not to be read here."""
    damage(log)
    done = run(log)
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr.startswith("NOT whole: ")


def test_what_lies_behind_a_successors_end_is_dead(tmp_path):
    """As in the real one: a frame there is no part of the log, even one that fits to the byte."""
    write_log(tmp_path, [b"kept"], [b"dead"])
    (path,) = segments_of(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[: 4096 + 512].ljust(len(whole), b"\0"))
    (tmp_path / "HEAD").unlink()
    write_log(tmp_path, [b"after"])
    path.write_bytes(whole)
    assert run(tmp_path).stdout == f"whole: 2:{verify(tmp_path).position.chain.hex()}\n"


def test_a_head_that_names_another_log_is_not_overlooked(log):
    """Even if it names the right event and the right chain value."""
    data = (log / "HEAD").read_bytes()
    (log / "HEAD").write_bytes(data[:16] + b"another log's id" + data[32:])
    assert says(log) is None


def test_without_head_later_frames_tell_of_a_lost_one(tmp_path):
    """Each names the last event that was durable before it; only the newest commit can go without a trace."""
    write_log(tmp_path, *([b"event"] for _ in range(4)))
    (tmp_path / "HEAD").unlink()
    (path,) = segments_of(tmp_path)
    data = path.read_bytes()
    for lost in range(4):
        at = 4096 + 512 * lost
        path.write_bytes(data[:at] + bytes(512) + data[at + 512 :])
        done = run(tmp_path)
        assert done.returncode == (0 if lost == 3 else 5)


def test_an_anchor_that_was_kept_shows_a_forged_history(log):
    """Everything recomputed: whole in itself, and not what the anchor knows."""
    first, *_, last = positions_of(log)
    assert run(log, f"{last.sequence}:{last.chain.hex()}").returncode == 0
    segments = commits_of(log)
    segments[1][0] = segments[1][0]._replace(payloads=(b"FOURTH" * 40,))
    forge(log, segments)
    assert run(log).returncode == 0
    assert run(log, f"{first.sequence}:{first.chain.hex()}").returncode == 0
    done = run(log, f"{last.sequence}:{last.chain.hex()}")
    assert done.returncode == 5
    assert "the anchor" in done.stderr


def test_the_process_and_the_function_agree(log):
    """What the table above asks of the function is what the process says."""
    assert says(log) + "\n" == run(log).stdout
