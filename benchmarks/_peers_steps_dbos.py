"""Durable steps through DBOS on SQLite. Run by DBOS's own environment, in a directory of its own.

python benchmarks/_peers_steps_dbos.py STEPS AT_ONCE: so many workflows at once, which share the steps
"""

import asyncio
import json
import logging
import sys
import time

from dbos import DBOS, DBOSConfig


@DBOS.step()
async def step(number: int) -> dict[str, object]:
    """An effect that takes no time; its output is about 300 bytes."""
    return {"number": number, "text": "x" * 270}


@DBOS.workflow()
async def work(steps: int) -> int:
    """So many steps, one after the other."""
    for number in range(steps):
        await step(number)
    return steps


async def main(steps: int, at_once: int) -> None:
    """Print the seconds from the first workflow's start to the last one's end."""
    config: DBOSConfig = {
        "name": "steps",
        "system_database_url": "sqlite:///steps.sqlite",
        "application_version": "1",
        "log_level": "WARNING",
    }
    DBOS(config=config)
    DBOS.launch()
    began = time.perf_counter()
    done = await asyncio.gather(*(work(steps // at_once) for _ in range(at_once)))
    seconds = time.perf_counter() - began
    DBOS.destroy()
    print(json.dumps({"steps": sum(done), "seconds": seconds}))


if __name__ == "__main__":
    logging.disable(logging.INFO)
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
