"""A bare loop over the same client: no log, no views, nothing kept. The bound that evrun is compared with.

python benchmarks/_bare_loop.py BASE_URL DATASET IN_FLIGHT
"""

import asyncio
import json
import sys
from collections.abc import Iterator

from evrun.effects.llm import Answered, Endpoint, LlmClient


async def worker(client: LlmClient, prompts: Iterator[str]) -> int:
    """Ask for one prompt after the other; the answers are read and dropped."""
    done = 0
    for prompt in prompts:
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": prompt}]}).encode()
        sent = await client.complete(body, idempotency_key="bench", timeout_s=60)
        assert isinstance(sent, Answered)
        json.loads(sent.body)["choices"][0]["message"]["content"]
        done += 1
    return done


async def main(base_url: str, dataset: str, in_flight: int) -> None:
    """Run the loop."""
    with open(dataset, encoding="utf-8") as lines:  # noqa: ASYNC230, PTH123 (nothing else runs yet)
        prompts = iter([json.loads(line)["prompt"] for line in lines])
    async with LlmClient(Endpoint(base_url), connections=in_flight, timeout_s=60) as client:
        await asyncio.gather(*(worker(client, prompts) for _ in range(in_flight)))


asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
