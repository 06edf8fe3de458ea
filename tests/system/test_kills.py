"""Real writers die by kill -9, at every call through the seam and at random: nothing acknowledged is lost.

`EVRUN_WRITER_KILLS` says how many die at random moments (default 45); `EVRUN_POINTS=all` kills at every call,
also at those that only read.
"""

import os
import shutil
import signal
import time
from random import Random

import pytest

from tests.system.injection import no_log, old_log, twins_unfinished, unclean_log
from tests.system.processes import judge, judge_and_go_on, missing_from, numbers, points_in

KILLS = int(os.environ.get("EVRUN_WRITER_KILLS", "45"))
SCENES = {
    "a new log": (no_log, "write", {"count": 6}),
    "an unclean log": (unclean_log, "write", {"count": 6}),
    "an unclean log from tasks": (unclean_log, "tasks", {"count": 12}),
    "a log that is compressed meanwhile": (unclean_log, "tasks", {"count": 16, "compress_sealed": True}),
    "compression": (old_log, "compact", {}),
    "compression once more": (twins_unfinished, "compact", {}),
}
STEPS = {"a log that is compressed meanwhile": 2, "compression": 2, "compression once more": 2}
POINTS = [(scene, when) for scene in SCENES for when in ("before", "within")] + [("an unclean log", "after")]


def copied(start, log):
    """Begin from the prepared log again."""
    if log.exists():
        shutil.rmtree(log)
    if start.exists():
        shutil.copytree(start, log)


@pytest.mark.parametrize(("scene", "when"), POINTS)
def test_a_kill_at_every_call_through_the_seam_loses_nothing(server, tmp_path, tally, scene, when):
    """Open, append, roll, seal, close, compress: a process dies before, within or after each single call."""
    prepare, act, order = SCENES[scene]
    start, log = tmp_path / "start", tmp_path / "log"
    told = prepare(server, start)
    copied(start, log)
    points = points_in(
        server.run(act, log, strike=[0, when], **order), 1 if when == "within" else STEPS.get(scene, 1)
    )
    if when == "within":
        points = list(enumerate((name for _, name in points if name == "pwrite"), start=1))
    died = 0
    for nth, _ in points:
        copied(start, log)
        life = server.start(act, log, strike=[nth, when], **order)
        died += life.wait() == signal.SIGKILL
        judge(log, [*told, life.said], ordered=act == "write")
        judge_and_go_on(log, [*told, life.said], 10_000, ordered=act == "write")
    # Several threads call: the last few calls may come in another order and number, so not all die.
    assert died >= 0.5 * len(points) > 0
    tally("kills", died)


@pytest.mark.parametrize("act", ["write", "tasks", "turns"])
def test_a_log_survives_many_lives_that_end_at_random(server, tmp_path, tally, act):
    """One log; each life is killed a random moment after a random number of acknowledgements."""
    log = tmp_path / "log"
    told = []
    lives = KILLS // 3
    for life, rng in enumerate(map(Random, range(lives))):
        writer = server.start(act, log, first=life * 1000, count=1000)
        writer.wait_for("A", times=rng.randrange(30))
        time.sleep(rng.random() * 0.005)  # not for order: only to hit another place in the writer's loop
        told.append(writer.kill())
        if life % 5 == 4:
            judge(log, told, ordered=act != "tasks")
    assert sum(len(numbers(said, "A")) for said in told) > 5 * lives
    judge_and_go_on(log, told, 1_000_000, ordered=act != "tasks")
    tally("kills", lives)


def test_a_lost_commit_would_be_missed(server, tmp_path):
    """The judge can say no: without its newest segment the log does not hold what was acknowledged."""
    log = tmp_path / "log"
    said = server.run("write", log, count=12)
    assert missing_from(log, [said]) == []
    max(log.glob("*.evl")).unlink()
    (log / "HEAD").unlink()
    assert missing_from(log, [said])
    with pytest.raises(AssertionError):
        judge(log, [said])
