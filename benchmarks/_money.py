"""The kill test of the money table: one runner, one seed, one endpoint that keeps its own account."""

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tests.endpoint.client import RunningEndpoint, running_endpoint
from tests.runs import environment, write_prompts

MODEL = "test-model"
USD_PER_MILLION = (1, 2)  # input, output: 1,000 and 2,000 nano-USD a token
DEADLINE_S = 180.0
REFUSE_EMPTY = {  # what hosted APIs do too; curator asks such a question for the limits in the headers
    "match": {"prompt": ""},
    "then": {"status": 400, "error": {"message": "no messages"}, "latency_ms": 0},
}
NOWHERE = "http://127.0.0.1:9"  # the discard port: whatever is not for loopback fails at once


class Job(NamedTuple):
    """What a runner is to do: every prompt once, so many at a time, in a directory of its own."""

    directory: Path
    base_url: str
    dataset: Path
    in_flight: int


class Bracket(NamedTuple):
    """What a runner says is certain, and what it says may have been spent besides."""

    settled: int
    in_doubt: int

    def holds(self, truth: int) -> bool:
        """Whether the truth is inside."""
        return self.settled <= truth <= self.settled + self.in_doubt


class Report(NamedTuple):
    """A runner's own account after the resume.

    `tokens`: the total it states; `row_tokens`: what the usage kept with its rows adds up to. `named`:
    prompts it says may have been paid for more than once, or without its knowing.
    """

    rows: int
    tokens: int
    row_tokens: int
    named: frozenset[str] = frozenset()
    token_bracket: Bracket | None = None
    nano_usd_bracket: Bracket | None = None


class Runner(Protocol):
    """One that works through prompts and can go on after a kill."""

    name: str

    def install(self, cache: Path) -> str:
        """Make it ready in `cache`; gives its name and version, or raises Unavailable."""
        ...

    def start(self, job: Job) -> list[str]:
        """The command that begins."""
        ...

    def resume(self, job: Job) -> list[str]:
        """The command that goes on."""
        ...

    def environment(self, job: Job) -> dict[str, str]:
        """Variables for all its commands."""
        ...

    def report(self, job: Job) -> Report:
        """What it says of its own, from what it keeps on disk."""
        ...


class Unavailable(Exception):
    """A runner that cannot be had here, and why."""


class Plan(NamedTuple):
    """What a trial is like; `in_flight` requests at once, answers after the latency up to twice that."""

    seed: int
    prompts: int
    in_flight: int
    latency_ms: int


class Trial(NamedTuple):
    """What is known of a trial besides the accounts. `killed_at`: requests that had arrived."""

    seed: int
    killed_at: int
    exit_code: int
    seconds: float


class Outcome(NamedTuple):
    """One runner, one seed. `killed_at`: requests that had arrived; `served`: all that were billed."""

    seed: int
    killed_at: int
    exit_code: int
    served: int
    repeated: int
    rows: int
    tokens: int
    row_tokens: int
    true_tokens: int
    named: int
    repeated_named: int
    tokens_inside: bool | None
    usd_inside: bool | None
    bracket: str
    seconds: float

    @property
    def missing(self) -> int:
        """Tokens that were billed and are not in the runner's total."""
        return self.true_tokens - self.tokens


def prompts_of(count: int) -> list[str]:
    """Prompts of different lengths, each once."""
    return [f"Question {n}: what is {n} " + "plus one " * (n % 7) + "altogether?" for n in range(count)]


def clean_environment(more: dict[str, str]) -> dict[str, str]:
    """This process's environment; anything but loopback is led to a closed port."""
    away = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), NOWHERE)
    here = dict.fromkeys(("no_proxy", "NO_PROXY"), "127.0.0.1,localhost")
    kept = environment(**away, **here, OPENAI_API_KEY="none", PYTHONDONTWRITEBYTECODE="0")
    del kept["PYTHONPATH"], kept["PYTHONDONTWRITEBYTECODE"]
    return {**kept, **more}


def launch(command: list[str], runner: Runner, job: Job, name: str) -> subprocess.Popen[bytes]:
    """Start a command as the leader of a process group of its own, politely; its words go to a file."""
    with (job.directory / f"{name}.out").open("wb") as out:
        return subprocess.Popen(
            ["nice", *command],
            cwd=job.directory,
            env=clean_environment(runner.environment(job)),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL for the whole group at once, as when a machine is lost to its job."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def still_running(process: subprocess.Popen[bytes]) -> None:
    """A trial needs a victim.

    Raises:
        RuntimeError: it has ended.
    """
    if process.poll() is not None:
        raise RuntimeError(f"it ended with {process.returncode} before it was killed")


def run_until(process: subprocess.Popen[bytes], endpoint: RunningEndpoint, arrived: int) -> None:
    """Wait until so many requests have arrived."""
    deadline = time.monotonic() + DEADLINE_S
    while endpoint.totals()["requests"] < arrived:
        still_running(process)
        if time.monotonic() > deadline:
            raise RuntimeError(f"not {arrived} requests in {DEADLINE_S:g} s")
        time.sleep(0.02)


def said(job: Job, name: str) -> str:
    """The end of what a command printed, for a message."""
    return (job.directory / f"{name}.out").read_text("utf-8", "replace")[-2000:]


def begin_and_kill(runner: Runner, job: Job, endpoint: RunningEndpoint, plan: Plan) -> int:
    """Run a first session up to its kill; gives how many requests had arrived."""
    rng = random.Random(plan.seed)  # the same moments for every runner
    fraction, pause_s = rng.uniform(0.4, 0.6), rng.uniform(0, plan.latency_ms / 1000)
    process = launch(runner.start(job), runner, job, "start")
    try:
        run_until(process, endpoint, round(plan.prompts * fraction))
        time.sleep(pause_s)
        still_running(process)
    except RuntimeError as error:
        raise RuntimeError(f"{runner.name}: {error}\n{said(job, 'start')}") from error
    finally:
        kill_group(process)
    return int(endpoint.totals()["requests"])


def resume(runner: Runner, job: Job) -> int:
    """Run the second session to its end; gives its exit code."""
    process = launch(runner.resume(job), runner, job, "resume")
    try:
        return process.wait(DEADLINE_S)
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"{runner.name} does not end\n{said(job, 'resume')}") from error
    finally:
        if process.poll() is None:
            kill_group(process)


def kill_test(runner: Runner, plan: Plan, scratch: Path) -> Outcome:
    """Start, kill, resume to the end, compare accounts; all files of the trial below `scratch`."""
    scratch.mkdir(parents=True)
    prompts = prompts_of(plan.prompts)
    dataset = write_prompts(scratch / "prompts.jsonl", prompts)
    began = time.monotonic()
    latency = plan.latency_ms
    options = {"latency_ms": latency, "latency_spread_ms": latency, "rules": [REFUSE_EMPTY]}
    with running_endpoint(**options) as endpoint:
        job = Job(scratch, endpoint.base_url, dataset, plan.in_flight)
        killed_at = begin_and_kill(runner, job, endpoint, plan)
        code = resume(runner, job)
        trial = Trial(plan.seed, killed_at, code, round(time.monotonic() - began, 1))
        try:
            report = runner.report(job)
        except Exception as error:
            raise RuntimeError(f"{runner.name}: no account\n{said(job, 'resume')}") from error
        return judge(report, endpoint.requests(), prompts, trial)


def judge(report: Report, requests: list[dict[str, Any]], prompts: Iterable[str], trial: Trial) -> Outcome:
    """A runner's account beside the endpoint's."""
    billed = [request for request in requests if request["billed"]]
    times = Counter(request["prompt"] for request in billed)
    strangers = set(times) - set(prompts)
    if strangers:
        raise RuntimeError(f"the endpoint was asked what is in no dataset: {sorted(strangers)[:3]}")
    repeated = {prompt for prompt, n in times.items() if n > 1}
    tokens_in, tokens_out = (sum(r[key] for r in billed) for key in ("input_tokens", "output_tokens"))
    nano_usd = tokens_in * USD_PER_MILLION[0] * 1000 + tokens_out * USD_PER_MILLION[1] * 1000
    tokens, usd = report.token_bracket, report.nano_usd_bracket
    return Outcome(
        trial.seed,
        trial.killed_at,
        trial.exit_code,
        len(billed),
        len(billed) - len(times),
        report.rows,
        report.tokens,
        report.row_tokens,
        tokens_in + tokens_out,
        len(report.named),
        len(repeated & report.named),
        None if tokens is None else tokens.holds(tokens_in + tokens_out),
        None if usd is None else usd.holds(nano_usd),
        "" if tokens is None else f"{tokens.settled} to {tokens.settled + tokens.in_doubt}",
        trial.seconds,
    )


def output_of(command: list[str], runner: Runner, job: Job) -> Any:
    """What a command that only reads prints, as JSON: its last line."""
    done = subprocess.run(
        command,
        cwd=job.directory,
        env=clean_environment(runner.environment(job)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{command} ended with {done.returncode}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])
