"""Durable steps through evrun's log, in a directory of its own.

python benchmarks/_peers_steps_evrun.py STEPS AT_ONCE COMMITS: so many tasks at once, which share the steps

COMMITS 1: the outcome is durable before the next step, as with the peers; 2: the intent is, too, as in a run.
"""

import asyncio
import json
import os
import sys
import time
from pathlib import Path

from eventlog.events import ModelAnswered, encode_event
from eventlog.storage import LogWriter

OUTCOME = encode_event(ModelAnswered("s1.c1", b'{"text":"' + b"x" * 270 + b'"}', 1, None))


async def work(writer: LogWriter, steps: int, commits: int) -> int:
    """So many steps, one after the other."""
    for _ in range(steps):
        for _ in range(commits):
            await writer.submit_async([OUTCOME])
    return steps


async def main(steps: int, at_once: int, commits: int) -> None:
    """Print the seconds from the first step to the last."""
    writer = LogWriter.open(Path("log"), clock_ns=time.time_ns, random_bytes=os.urandom, holder={})
    try:
        began = time.perf_counter()
        done = await asyncio.gather(*(work(writer, steps // at_once, commits) for _ in range(at_once)))
        seconds = time.perf_counter() - began
    finally:
        writer.close()
    print(json.dumps({"steps": sum(done), "seconds": seconds}))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
