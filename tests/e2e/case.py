"""One run of one case: a dataset, an endpoint, and the command that brings them together."""

import hashlib
import json
from pathlib import Path
from typing import Any

from eventlog.events import Event, decode_event
from eventlog.storage import LogReader
from tests.endpoint.client import RunningEndpoint
from tests.runs import Ended, evrun, kill, rows_of, start, wait_until, write_prompts


class Case:
    """Works in `directory` against `endpoint`; `options` go with every first session."""

    def __init__(self, directory: Path, endpoint: RunningEndpoint, *options: object, **env: str) -> None:
        self.directory = directory
        self.endpoint = endpoint
        self.dataset = directory / "d.jsonl"
        self.run_directory = directory / "data/r"
        self.env = env
        self._where = ["--run-name", "r", "--model", "m", "--base-url", endpoint.base_url]
        self._options = options or ("--toolsets", "none")

    def write(self, *prompts: str) -> None:
        """The dataset, from now on."""
        write_prompts(self.dataset, list(prompts))

    def first(self, *more: object) -> Ended:
        """The first session, to its end."""
        return evrun(*self.command(*more), "--json", cwd=self.directory, **self.env)

    def killed_at(self, faults: int, *more: object) -> Ended:
        """The first session, killed when so many requests hang at the endpoint."""
        process = start(*self.command(*more), cwd=self.directory, **self.env)
        wait_until(lambda: self.endpoint.totals()["faults"] >= faults, "requests to hang")
        return kill(process)

    def resume(self, *more: object) -> Ended:
        """Another session."""
        return evrun("run", "--run-name", "r", "--resume", "--json", *more, cwd=self.directory, **self.env)

    def command(self, *more: object) -> list[object]:
        """The command of the first session."""
        return ["run", self.dataset, *self._where, *self._options, *more]

    def asked(self) -> list[str]:
        """The prompts of all requests so far, in their order."""
        return [request["prompt"] for request in self.endpoint.requests()]

    def rows(self, name: str = "trajectories.jsonl") -> list[dict[str, Any]]:
        """The rows of a view."""
        return rows_of(self.run_directory / name)

    def statistics(self) -> dict[str, Any]:
        """The statistics."""
        found: dict[str, Any] = json.loads((self.run_directory / "statistics.json").read_text("utf-8"))
        return found

    def events(self, kind: type[Event] = Event) -> list[Any]:
        """The durable events of a type."""
        with LogReader.open(self.run_directory / "log") as reader:
            events = [decode_event(record.payload) for record in reader.read()]
        return [event for event in events if isinstance(event, kind)]


def hang(**match: object) -> dict[str, Any]:
    """A rule: the first request that matches is never answered."""
    return {"match": match, "times": 1, "then": {"fault": "hang"}}


def digest_of(body: bytes) -> str:
    """How the endpoint's account names a request of this body."""
    return hashlib.sha256(body).hexdigest()
