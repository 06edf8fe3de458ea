"""A log of a million prompts without a call: real events through the real writer, as a run would leave it.

python benchmarks/million_log.py RUN_DIRECTORY [--prompts 1000000] [--pending 0] [--open 0] [--plain]
                                 [--base-url URL] [--dataset FILE]

For measuring what reads a log, and what goes on with one. All of it is what `evrun run` of a million short
prompts with `--toolsets none --keep-all` writes against tests/endpoint: the plan in its chunks, 64 prompts in
flight, five events each, each answer the endpoint's own. `--prompts` of them are finished; `--open` more have
a reservation without an outcome, and `--pending` more were planned and never begun: then the log ends as a
kill leaves it, and `evrun run --run-name NAME --output-dir DIR --resume` goes on with it. `--dataset` also
writes the prompts there. `--plain` leaves sealed segments uncompressed.
"""

import argparse
import hashlib
import json
import os
import socket
import sys
import time
from collections import deque
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from _million_rows import prompts, rows, write_dataset  # noqa: E402

from eventlog.events import (  # noqa: E402
    BudgetReserved,
    BudgetSpent,
    Counts,
    Event,
    InputDigest,
    ModelAnswered,
    PlannedRow,
    PromptsPlanned,
    PromptStarted,
    RunFinished,
    RunStarted,
    SessionClosed,
    SessionOpened,
    TrajectoryCompleted,
    Usage,
    encode_event,
)
from eventlog.storage import LogWriter, Ticket  # noqa: E402
from evrun.batch.identities import content_id  # noqa: E402
from evrun.batch.request import endpoint_host, request_body  # noqa: E402
from evrun.batch.settings import Settings, settings_digest, settings_record  # noqa: E402
from evrun.effects.clock import now_ns, random_bytes  # noqa: E402
from evrun.versions import versions  # noqa: E402
from projections import unit_name  # noqa: E402
from tests.endpoint.answers import answer, read_request  # noqa: E402
from tests.endpoint.server import Options  # noqa: E402

CHUNK_ROWS = 256
BATCH_ROWS = 10
AT_ONCE = 16  # so many prompts end, and begin, in one commit
IN_FLIGHT = 4 * AT_ONCE
FIRST_SEGMENT_BYTES = 64 * 1024
NOWHERE = "http://127.0.0.1:9/v1"
OPTIONS = Options()
SAYS = {"text": OPTIONS.text, "reasoning": OPTIONS.reasoning, "reasoning_field": OPTIONS.reasoning_field}


class Prompt(NamedTuple):
    """One prompt in flight: its unit, its call, and what the endpoint will be asked."""

    unit: str
    call: str
    body: bytes


class Made(NamedTuple):
    """What was made: events, and the size of the log's files with what is preallocated."""

    events: int
    log_bytes: int
    seconds: float


def settings_of(base_url: str, dataset: str) -> Settings:
    """The settings on record: those of a run of the same prompts by calls (benchmarks/million.py)."""
    return Settings(
        dataset=dataset, model="m", base_url=base_url, toolsets=[], require_reasoning=False,
        concurrency=IN_FLIGHT,
    )  # fmt: skip


def begun(name: str, settings: Settings, total: int) -> list[Event]:
    """The first commit."""
    digest, size = hashlib.sha256(), 0
    for row in rows(total):
        digest.update(row + b"\n")
        size += len(row) + 1
    inputs = [InputDigest("dataset rows", digest.hexdigest(), size, settings.dataset)]
    started = RunStarted("batch", name, settings_record(settings), {}, versions(), inputs)
    return [started, SessionOpened(1, os.getpid(), socket.gethostname(), versions()["evrun"])]


def plan(total: int) -> Iterator[PromptsPlanned]:
    """The plan, in chunks."""
    planned = (
        PlannedRow(content_id({"prompt": prompt}), 1, index, index // BATCH_ROWS + 1, row)
        for index, (prompt, row) in enumerate(zip(prompts(total), rows(total), strict=True))
    )
    for start in range(0, total, CHUNK_ROWS):
        chunk = list(islice(planned, CHUNK_ROWS))
        yield PromptsPlanned(chunk, complete=start + CHUNK_ROWS >= total)


def asked(settings: Settings, digest: bytes, number: int, text: str) -> tuple[Prompt, list[Event]]:
    """A prompt begins: its attempt, and the reservation of its one call."""
    body = request_body(settings, [{"role": "user", "content": text}], [], None)
    unit = unit_name(content_id({"prompt": text}), 1, 1)
    prompt = Prompt(unit, f"s1.c{number}", body)
    reserved = BudgetReserved(
        prompt.call, unit, 1, "rollout", settings.model, endpoint_host(settings),
        hashlib.sha256(body).digest(), None, len(body) + 528, None,
        f"{len(body)} bytes + 528 allowed; no price",
    )  # fmt: skip
    return prompt, [PromptStarted(unit, 1, [], digest), reserved]


def answered(prompt: Prompt, number: int) -> list[Event]:
    """A prompt ends: what its call cost, what was answered, and the boundary."""
    request = read_request(prompt.body)
    made = answer(request, {}, SAYS)
    said = json.loads(made.body)["usage"]
    thought = said["completion_tokens_details"]["reasoning_tokens"]
    usage = Usage(said["prompt_tokens"], None, said["completion_tokens"], thought)
    return [
        BudgetSpent(prompt.call, usage, None, None),
        ModelAnswered(prompt.call, made.body, 5, f"req_{number}"),
        TrajectoryCompleted(
            prompt.unit, 1, completed=True, partial=False, finish_reason="stop",
            counts=Counts(1, 1, 0, thought, {}),
        ),
    ]  # fmt: skip


def work(settings: Settings, finished: int, left_open: int) -> Iterator[list[Event]]:
    """The commits that take so many prompts to their ends, and leave some of those begun without one."""
    digest = settings_digest(settings)
    texts = enumerate(prompts(finished + left_open), 1)
    flying: deque[Prompt] = deque()
    ended = 0
    while ended < finished:
        events: list[Event] = []
        if len(flying) == IN_FLIGHT or ended + len(flying) == finished:
            for prompt in [flying.popleft() for _ in range(min(AT_ONCE, finished - ended))]:
                ended += 1
                events += answered(prompt, ended)
        for number, text in islice(texts, min(AT_ONCE, finished - ended - len(flying))):
            prompt, beginning = asked(settings, digest, number, text)
            flying.append(prompt)
            events += beginning
        yield events
    left = [event for number, text in texts for event in asked(settings, digest, number, text)[1]]
    if left:
        yield left


def closing(finished: int) -> list[Event]:
    """The last commit of a run that has finished."""
    zeros = dict.fromkeys(("discarded", "failed", "open", "pending", "withdrawn"), 0)
    done = RunFinished({"total": finished, "kept": finished, **zeros})
    return [done, SessionClosed(1, "finished", None, 1_000_000_000)]


def make_log(
    run: Path,
    finished: int,
    *,
    left_open: int = 0,
    pending: int = 0,
    base_url: str = NOWHERE,
    dataset: str = "prompts.jsonl",
    compress: bool = True,
) -> Made:
    """Make the log of a run in its directory, which must not hold one."""
    began, total, events = time.perf_counter(), finished + left_open + pending, 0
    settings = settings_of(base_url, dataset)
    ends = [closing(finished)] if total == finished else []
    commits = chain(
        [begun(run.name, settings, total)],
        ([c] for c in plan(total)),
        work(settings, finished, left_open),
        ends,
    )
    with LogWriter.open(
        run / "log", clock_ns=now_ns, random_bytes=random_bytes,
        first_segment_bytes=FIRST_SEGMENT_BYTES, compress_sealed=compress,
    ) as log:  # fmt: skip
        waiting: deque[Ticket] = deque()
        for commit in commits:
            waiting.append(log.submit([encode_event(event) for event in commit]))
            events += len(commit)
            if len(waiting) > 1:
                waiting.popleft().wait()
        for ticket in waiting:
            ticket.wait()
    size = sum(path.stat().st_size for path in (run / "log").iterdir())
    return Made(events, size, time.perf_counter() - began)


def main() -> None:
    """Make it and say what was made."""
    parser = argparse.ArgumentParser()
    parser.add_argument("run", type=Path)
    parser.add_argument("--prompts", type=int, default=1_000_000)
    parser.add_argument("--pending", type=int, default=0)
    parser.add_argument("--open", type=int, default=0)
    parser.add_argument("--base-url", default=NOWHERE)
    parser.add_argument("--dataset", type=Path)
    parser.add_argument("--plain", action="store_true")
    given = parser.parse_args()
    if (given.run / "log").exists():
        parser.error(f"{given.run} holds a log already; name another directory, or remove it")
    given.run.mkdir(parents=True, exist_ok=True)
    if given.dataset is not None:
        write_dataset(given.dataset, given.prompts + given.open + given.pending)
    made = make_log(
        given.run, given.prompts, left_open=given.open, pending=given.pending, base_url=given.base_url,
        dataset=str((given.dataset or Path("prompts.jsonl")).absolute()), compress=not given.plain,
    )  # fmt: skip
    print(f"{made.events} events, {made.log_bytes} bytes in {given.run}/log, {made.seconds:.1f} s")


if __name__ == "__main__":
    main()
