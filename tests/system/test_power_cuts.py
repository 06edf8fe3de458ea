"""The power fails while a real writer works on a real file system: what was acknowledged is there.

`EVRUN_CUTS` says how often, for each file system (default 10).
"""

import shutil
import signal
import time
from random import Random

import pytest

from tests.system.images import CUTS, FILE_SYSTEMS, Image, command
from tests.system.injection import copied, old_log
from tests.system.processes import Server, judge, judge_and_go_on, missing_from, numbers, points_in

COPIES = 3  # cuts in one life; the last one is the disk of the next
WHERE = "data/run/log"


def stopped(life):
    """Stop the writer wherever it is; what it has said by then is what counts."""
    life.send(signal.SIGSTOP)
    assert life.wait_until_stopped()
    return life.said


def cuts_of_one_life(server, image, act, life, cuts):
    """Let a writer work on the mounted image, cut the power so often; (copy, what it had said) for each."""
    found = []
    with image:
        rng = Random(life)
        order = {"compress_sealed": True} if life % 2 else {}
        writer = server.start(act, image.at / WHERE, first=life * 100_000, count=100_000, **order)
        try:
            for number in range(cuts):
                writer.wait_for("A", times=len(numbers(writer.said, "A")) + rng.randrange(1, 40))
                time.sleep(rng.random() * 0.01)  # not for order: to stop at another place
                said = stopped(writer)
                found.append((image.cut(f"cut-{life}-{number}"), said))
                writer.send(signal.SIGCONT)
        finally:
            writer.kill()
    image.forget()
    return found


@pytest.mark.parametrize("kind", FILE_SYSTEMS)
@pytest.mark.timeout(60 + 10 * CUTS)
def test_a_power_cut_loses_nothing_that_was_acknowledged(server, tmp_path, tally, kind):
    """The writer stops, the dirty image is copied, the copy mounted: A <= R <= I; the next life goes on."""
    image = Image.make(kind, tmp_path)
    told = []
    done = life = 0
    while done < CUTS:
        act = ("write", "tasks", "turns")[life % 3]
        copies = cuts_of_one_life(server, image, act, life, min(COPIES, CUTS - done))
        for copy, said in copies:
            with copy:
                more = judge_and_go_on(copy.at / WHERE, [*told, said], -1 - done, ordered=False)
            done += 1
            if copy is not copies[-1][0]:
                copy.forget()
        told += [said, more]
        image = copy
        life += 1
    assert sum(len(numbers(said, "A")) for said in told) > CUTS
    tally("cuts", done)


@pytest.mark.parametrize("kind", FILE_SYSTEMS)
@pytest.mark.timeout(60 + 10 * CUTS)
def test_a_power_cut_in_the_middle_of_compression_loses_nothing(server, tmp_path, tally, kind):
    """Compression stops before one of its calls that change the disk; the copy holds every event."""
    image = Image.make(kind, tmp_path)
    start = tmp_path / "start"
    told = old_log(server, start)
    points = points_in(server.run("compact", copied(start, "whole"), strike=[0, ""]))
    chosen = Random(kind).sample(points, min(CUTS, len(points)))
    for batch in range(0, len(chosen), COPIES):
        with image:
            copies = [cut_at(server, image, start, nth) for nth, _ in chosen[batch : batch + COPIES]]
        for copy, name in copies:
            with copy:
                judge_and_go_on(copy.at / name, told, -1)
                assert server.run("compact", copy.at / name)[-1] == ["D"]
                judge(copy.at / name, [*told, [["I", "-1"], ["A", "-1"]]])
            copy.forget()
    tally("cuts", len(chosen))


def cut_at(server, image, start, nth):
    """Stop the compression of a copy of a log before its n-th call, and cut; (copy, the log's name)."""
    name = f"log-{nth}"
    shutil.copytree(start, image.at / name)
    command("sync", "-f", image.at)
    life = server.start("compact", image.at / name, strike=[nth, "before", signal.SIGSTOP])
    assert life.wait_until_stopped()
    copy = image.cut(f"cut-{nth}")
    life.kill()
    return copy, name


@pytest.mark.parametrize("kind", FILE_SYSTEMS)
@pytest.mark.timeout(300)
def test_without_syncs_the_same_cut_loses_what_was_acknowledged(tmp_path, tally, kind):
    """The control: under eatmydata, where no sync does anything, the cut must be seen to lose commits.

    So the cuts above are real: what survives them survived because it was synced.
    """
    server = Server(tmp_path, prefix=("eatmydata",))
    try:
        image = Image.make(kind, tmp_path)
        lost = []
        for life in range(5):
            ((copy, said),) = cuts_of_one_life(server, image, "write", 2 * life, 1)
            with copy:
                lost += missing_or_refused(copy.at / WHERE, said)
            if lost:
                break
            image = copy
        assert lost
        tally("cuts", life + 1)
    finally:
        server.close()


def missing_or_refused(log, said):
    """What a cut took from the log."""
    try:
        return missing_from(log, [said])
    except Exception as error:  # noqa: BLE001 - whatever says that something is missing
        return [repr(error)]
