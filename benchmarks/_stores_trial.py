"""One trial of the fault table: write in a process that is killed, reopen a copy in one that may crash."""

import json
import os
import random
import resource
import select
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple, NoReturn

from benchmarks._stores import Sizes, Store, file_sizes, payload, payloads
from benchmarks._stores_faults import Fault, Written, tail_of

Kind = Literal["whole", "silent", "refused", "crashed", "hung"]
REOPEN_SECONDS = 10.0  # it takes a fraction of one


class Outcome(NamedTuple):
    """What reopening gave.

    whole: every acknowledged record, and nothing else. silent: no error, and records are missing or wrong.
    refused: an error on opening or reading. crashed: the process died of a signal. hung: it did not end.
    """

    kind: Kind
    intact: int
    wrong: int
    said: str
    check: str


def write_store(store: Store, scratch: Path, count: int) -> Written:
    """Append `count` records, each durable before the next; copy the files; append one more; copy again.

    The writing process is then killed: nothing is ever closed, unless the store's `settle` says so.
    """
    live, acknowledged, one_more = scratch / "live", scratch / "acknowledged", scratch / "one-more"
    reports, reports_out = os.pipe()
    go_on_in, go_on = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reports)
        os.close(go_on)
        _in_child(lambda: _append_all(store, live, count, reports_out, go_on_in))
    os.close(reports_out)
    os.close(go_on_in)
    try:
        with os.fdopen(reports) as lines:
            sizes: Sizes = json.loads(lines.readline())
            shutil.copytree(live, acknowledged)
            os.write(go_on, b"1")
            if json.loads(lines.readline()) != "appended":
                raise RuntimeError(f"{store.name} did not append one more record")
            shutil.copytree(live, one_more)
    finally:
        os.close(go_on)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    extents = store.extents(acknowledged, payloads(count), sizes)
    return Written(acknowledged, extents, tail_of(store, acknowledged, one_more))


def _append_all(store: Store, directory: Path, count: int, reports: int, go_on: int) -> NoReturn:
    append = store.appender(directory)
    sizes = [file_sizes(directory)]
    for number, record in enumerate(payloads(count), 1):
        append(number, record)
        sizes.append(file_sizes(directory))
    append = store.settle(append)
    os.write(reports, json.dumps(sizes).encode() + b"\n")
    os.read(go_on, 1)
    append(count + 1, payload(count + 1))
    os.write(reports, b'"appended"\n')
    while True:
        signal.pause()


def try_fault(store: Store, written: Written, fault: Fault, seed: str, scratch: Path) -> Outcome:
    """Put one fault on a copy of the files and reopen it. The same seed gives the same image."""
    image = scratch / "image"
    shutil.rmtree(image, ignore_errors=True)
    shutil.copytree(written.directory, image)
    fault.apply(image, written, random.Random(seed))
    store.prepare(image)
    return reopen(store, image, len(written.extents), one_more_is_legal=fault.legal)


def reopen(store: Store, image: Path, count: int, *, one_more_is_legal: bool) -> Outcome:
    """Reopen in a child process and say what came back."""
    answers, answers_out = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(answers)
        _in_child(lambda: _answer(store, image, count, answers_out, one_more_is_legal=one_more_is_legal))
    os.close(answers_out)
    with os.fdopen(answers, "rb") as pipe:
        late = not select.select([pipe], [], [], REOPEN_SECONDS)[0]
        if late:
            os.kill(pid, signal.SIGKILL)
        answer = pipe.read()
    _, status = os.waitpid(pid, 0)
    if answer:
        return Outcome(*json.loads(answer))
    if late:
        return Outcome("hung", 0, 0, f"no end after {REOPEN_SECONDS:.0f} s", "")
    if os.WIFSIGNALED(status):
        return Outcome("crashed", 0, 0, signal.Signals(os.WTERMSIG(status)).name, "")
    raise RuntimeError(f"{store.name}: the reopening process ended with status {status} and no answer")


def _answer(store: Store, image: Path, count: int, answers: int, *, one_more_is_legal: bool) -> None:
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    try:
        found = store.read(image)
    except Exception as error:  # noqa: BLE001 - a store may refuse by any error
        outcome = Outcome("refused", 0, 0, f"{type(error).__name__}: {error}"[:300], "")
    else:
        intact, wrong = count_records(found, count, one_more_is_legal=one_more_is_legal)
        kind: Kind = "whole" if (intact, wrong) == (count, 0) else "silent"
        outcome = Outcome(kind, intact, wrong, "", store.check(image))
    os.write(answers, json.dumps(outcome).encode())


def count_records(found: list[tuple[int, bytes]], count: int, *, one_more_is_legal: bool) -> tuple[int, int]:
    """How many acknowledged records came back as they were, and how many came back that nobody wrote."""
    expected = dict(enumerate(payloads(count), 1))
    if one_more_is_legal:
        expected[count + 1] = payload(count + 1)
    right = {number for number, record in found if expected.get(number) == record}
    return len(right - {count + 1}), len(found) - len(right)


def _in_child(work: Callable[[], None]) -> NoReturn:
    """Run a forked child's part; it never returns into what its parent was doing, and closes nothing."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash is an outcome, not something to look into
    try:
        work()
    except BaseException:  # noqa: BLE001 - the process ends here
        traceback.print_exc(file=sys.stderr)
        os._exit(1)
    os._exit(0)
