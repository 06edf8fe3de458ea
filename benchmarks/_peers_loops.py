"""Loops of the peers' table.

python benchmarks/_peers_loops.py httpx BASE_URL DATASET IN_FLIGHT
python benchmarks/_peers_loops.py line-and-checkpoint BASE_URL DATASET IN_FLIGHT

The second keeps results as Hermes's batch runner does: the row of each finished prompt is appended to its
batch's file and synced, and after each batch of ten the whole checkpoint (all finished prompts) is written
anew and synced.
"""

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from evrun.effects.llm import Answered, Endpoint, LlmClient

BATCH = 10


def request(prompt: str) -> dict[str, Any]:
    """What is sent."""
    return {"model": "m", "messages": [{"role": "user", "content": prompt}]}


async def ask_all(client: httpx.AsyncClient, url: str, prompts: Iterator[str]) -> None:
    """One prompt after the other; the answers are read and dropped."""
    for prompt in prompts:
        response = await client.post(url, json=request(prompt))
        response.raise_for_status()
        response.json()["choices"][0]["message"]["content"]


async def httpx_loop(base_url: str, prompts: list[str], in_flight: int) -> None:
    """Httpx as it comes, with as many connections as requests in flight."""
    limits = httpx.Limits(max_connections=in_flight, max_keepalive_connections=in_flight)
    left = iter(prompts)
    async with httpx.AsyncClient(limits=limits, timeout=60) as client:
        url = f"{base_url}/chat/completions"
        await asyncio.gather(*(ask_all(client, url, left) for _ in range(in_flight)))


class Kept:
    """Rows in batch files and the checkpoint, in the working directory."""

    def __init__(self) -> None:
        self._done: list[int] = []

    def put(self, index: int, prompt: str, answer: dict[str, Any]) -> None:
        """A finished prompt: its row, and with every tenth the checkpoint."""
        text = answer["choices"][0]["message"]["content"]
        turns = [{"from": "human", "value": prompt}, {"from": "gpt", "value": text}]
        row = {"prompt_index": index, "conversations": turns, "completed": True, "usage": answer["usage"]}
        with Path(f"batch_{index // BATCH}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self._done.append(index)
        if len(self._done) % BATCH == 0:
            self.write_checkpoint()

    def write_checkpoint(self) -> None:
        """All of it, in the place of the old one."""
        with Path("checkpoint.tmp").open("w", encoding="utf-8") as file:
            json.dump({"run_name": "r", "completed_prompts": self._done}, file)
            file.flush()
            os.fsync(file.fileno())
        Path("checkpoint.tmp").replace("checkpoint.json")


async def ask_and_keep(client: LlmClient, left: Iterator[tuple[int, str]], kept: Kept) -> None:
    """One prompt after the other, each kept before the next is asked."""
    for index, prompt in left:
        body = json.dumps(request(prompt)).encode()
        sent = await client.complete(body, idempotency_key="bench", timeout_s=60)
        assert isinstance(sent, Answered)
        kept.put(index, prompt, json.loads(sent.body))


async def line_and_checkpoint(base_url: str, prompts: list[str], in_flight: int) -> None:
    """The client that evrun uses, and files in the working directory."""
    left, kept = iter(enumerate(prompts)), Kept()
    async with LlmClient(Endpoint(base_url), connections=in_flight, timeout_s=60) as client:
        await asyncio.gather(*(ask_and_keep(client, left, kept) for _ in range(in_flight)))
    kept.write_checkpoint()


LOOPS = {"httpx": httpx_loop, "line-and-checkpoint": line_and_checkpoint}

if __name__ == "__main__":
    lines = Path(sys.argv[3]).read_text("utf-8").splitlines()
    asyncio.run(
        LOOPS[sys.argv[1]](sys.argv[2], [json.loads(line)["prompt"] for line in lines], int(sys.argv[4]))
    )
