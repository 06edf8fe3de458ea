"""A disk that fails under a run: one clear error, what was acknowledged stays, a resume goes on."""

import errno
import json
from collections import Counter
from functools import partial

import anyio
import pytest

from eventlog.storage import LogReader, LogWriter, verify
from evrun.batch import Options, opening, run_batch
from projections import fold_log
from tests.evrun.acting import FailingDisk, names_in
from tests.evrun.attempts import body as answer_body
from tests.evrun.loopback import read_request, serving

PROMPTS = [f"prompt {number}" for number in range(12)]


class Silent:
    """Nobody looks."""

    see = None

    def note(self, text):
        """Say nothing."""

    def progress(self, state):
        """Show nothing."""


@pytest.fixture(name="disk")
def _disk(monkeypatch):
    """The disk under the run's log."""
    disk = FailingDisk()
    monkeypatch.setattr(opening.LogWriter, "open", partial(LogWriter.open, filesystem=disk))
    return disk


class Bench:
    """A dataset of twelve prompts, an endpoint that counts, and a run of them."""

    def __init__(self, directory):
        self.dataset = directory / "d.jsonl"
        self.dataset.write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in PROMPTS))
        self.output = directory / "data"
        self.run = self.output / "r"
        self.asked = Counter()
        self.at_request = {}

    async def handle(self, reader, writer, came):
        """Answer, after doing what is due at this request's number."""
        while True:
            await read_request(reader, came)
            prompt = json.loads(came[-1].partition(b"\r\n\r\n")[2])["messages"][-1]["content"]
            self.asked[prompt] += 1
            self.at_request.get(self.asked.total(), lambda: None)()
            body = answer_body(usage={"prompt_tokens": 1, "completion_tokens": 1})
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))

    async def session(self, *, resume, caps=None, **more):
        """One session on the run."""
        async with serving(self.handle) as (url, _):
            given = {"model": "m", "base_url": url, "concurrency": 3, "toolsets": [], **more}
            options = Options(
                run_name="r", output_dir=self.output, resume=resume, given=given,
                dataset=None if resume else self.dataset, caps=caps or {},
            )  # fmt: skip
            return await run_batch(options, {}, Silent())

    def state(self):
        """What the log says."""
        with LogReader.open(self.run / "log") as reader:
            return fold_log(reader)


def fail(disk, call, number):
    """Let the next such call fail."""
    disk.failing[call] = number


FAULTS = {
    "full disk": ("pwrite", errno.ENOSPC),
    "failed write": ("pwrite", errno.EIO),
    "failed sync": ("fdatasync", errno.EIO),
}


@pytest.mark.parametrize("at", [1, 6])
@pytest.mark.parametrize(("call", "number"), FAULTS.values(), ids=FAULTS)
def test_a_run_whose_disk_fails_ends_with_its_state_kept_and_a_resume_finishes_it(
    tmp_path, disk, call, number, at
):
    """Exit 1 with what to do; answers that were acknowledged are never asked for again."""
    bench = Bench(tmp_path)
    bench.at_request[at] = partial(fail, disk, call, number)
    failed = anyio.run(partial(bench.session, resume=False))
    assert (failed.name, failed.exit_code) == ("failed", 1)
    assert "the log cannot be written" in failed.reason
    assert disk.struck == 1
    assert verify(bench.run / "log").kind in {"clean", "torn"}
    before = bench.state().batch.counts
    assert before["failed"] == 0
    assert before["kept"] + before["open"] + before["pending"] == 12
    kept_before = before["kept"]
    asked_before = bench.asked.total()

    result = anyio.run(partial(bench.session, resume=True))

    assert (result.name, result.exit_code) == ("done", 0)
    assert result.state.batch.counts["kept"] == 12
    assert bench.asked.total() - asked_before == 12 - kept_before
    assert result.state.batch.unexplained == 0
    # Whatever was sent and not booked is named: nothing is forgotten, nothing is counted twice.
    total = result.state.ledger.total
    assert len(result.state.ledger.in_doubt) + 12 == total.calls
    assert bench.asked.total() <= total.calls


def test_a_disk_that_fails_while_the_plan_is_written_leaves_a_run_to_go_on_with(tmp_path, disk):
    """Nothing was asked; with the dataset the planning is completed."""
    bench = Bench(tmp_path)
    real = opening.first_plan

    def plan_then_fail(*arguments):
        fail(disk, "pwrite", errno.ENOSPC)
        yield from real(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "first_plan", plan_then_fail)
        assert anyio.run(partial(bench.session, resume=False)).exit_code == 1
    assert bench.asked.total() == 0
    assert names_in(bench.run) == ["RunStarted", "SessionOpened", "SessionClosed"]
    result = anyio.run(partial(bench.session, resume=True))
    assert result.state.batch.counts["kept"] == 12


@pytest.mark.timeout(60)
def test_nobody_waits_under_a_cap_for_a_settlement_that_could_not_be_written(tmp_path, disk):
    """The call stays reserved, and the run ends: its own next prompt must not wait for it for ever."""
    bench = Bench(tmp_path)
    bench.at_request[1] = partial(fail, disk, "pwrite", errno.ENOSPC)
    more = {"concurrency": 1, "caps": {"calls": 1}}
    failed = anyio.run(partial(bench.session, resume=False, **more))
    assert (failed.name, failed.exit_code) == ("failed", 1)
    assert "the log cannot be written" in failed.reason
    assert len(failed.state.ledger.reserved) == 1
    paused = anyio.run(partial(bench.session, resume=True, concurrency=1))
    assert (paused.name, paused.exit_code, len(paused.state.ledger.in_doubt)) == ("paused", 4, 1)
    assert bench.asked.total() == 1
