"""The power fails under a whole `evrun run`: resumed on what the disk kept, it repeats no recorded call.

On the first file system that works here; with `EVRUN_CUTS` above 10 on all of them.
"""

import json
import random
import signal
import time
from collections import Counter

import pytest

from tests.endpoint.client import running_endpoint
from tests.runs import evrun, finish, gsm8k, kill, prompts_of, start, wait_until
from tests.system.images import CUTS, FILE_SYSTEMS, Image

LIVES = max(2, CUTS // 5)
PROMPTS = 60 * LIVES
CONCURRENCY = 8
KINDS = FILE_SYSTEMS if CUTS > 10 else FILE_SYSTEMS[:1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.timeout(120 + 20 * CUTS)
def test_a_run_whose_disk_loses_power_is_complete_and_repeats_no_answered_call(tmp_path, tally, kind):
    """Cut, resume on the copy, cut again: in the end every prompt once, answered calls never sent again."""
    chance = random.Random(kind)
    dataset = gsm8k(tmp_path / "prompts.jsonl", PROMPTS)
    image = Image.make(kind, tmp_path)
    with running_endpoint(latency_ms=40) as endpoint:
        first = [
            "run", dataset, "--run-name", "r", "--model", "m", "--base-url", endpoint.base_url,
            "--toolsets", "none", "--concurrency", CONCURRENCY,
        ]  # fmt: skip
        again = ["run", "--run-name", "r", "--resume"]
        for life in range(LIVES):
            with image:
                process = start(*(again if life else first), cwd=image.at)
                try:
                    answered = endpoint.totals()["answered"] + chance.randrange(5, 40)
                    wait_until(lambda: endpoint.totals()["answered"] >= answered, "answers")  # noqa: B023
                    time.sleep(chance.random() * 0.02)  # not for order: to stop at another place
                    assert process.poll() is None
                    process.send_signal(signal.SIGSTOP)
                    copy = image.cut(f"cut-{life}")
                finally:
                    kill(process)
            image.forget()
            image = copy
        with image:
            last = finish(start(*again, "--json", cwd=image.at))
            assert last.code == 0, last
            assert sorted(prompts_of(image.at / "data/r")) == sorted(prompts_asked(dataset))
            assert evrun("verify", "r", cwd=image.at).code == 0
            assert evrun("replay", "r", "--check", cwd=image.at).code == 0
        served = Counter(request["prompt"] for request in endpoint.requests())
    # Only a call whose answer was not yet durable may be sent again: at most those in flight, once per cut.
    assert sum(served.values()) <= PROMPTS + CONCURRENCY * LIVES
    tally("cuts", LIVES)


def prompts_asked(dataset):
    """The prompts of a dataset."""
    return [row["prompt"] for row in map(json.loads, dataset.read_text("utf-8").splitlines())]
