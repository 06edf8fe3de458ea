"""Start the endpoint as a process of its own, and read its account."""

import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests import warm

ROOT = Path(__file__).resolve().parents[2]
_no_proxy = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class RunningEndpoint:
    """A running endpoint: `base_url` for the client under test, `account()` for the truth."""

    def __init__(self, process: warm.Warm, said: dict[str, Any]) -> None:
        self.process = process
        self.port: int = said["port"]
        self.base_url: str = said["base_url"]
        self.root_url = self.base_url.removesuffix("/v1")

    def account(self) -> dict[str, Any]:
        """``{"totals": …, "requests": […]}``: everything served so far."""
        return self._ask("/_account")

    def totals(self) -> dict[str, Any]:
        """The sums alone."""
        return self._ask("/_totals")

    def requests(self) -> list[dict[str, Any]]:
        """The requests served so far, in the order in which they were decided."""
        served: list[dict[str, Any]] = self.account()["requests"]
        return served

    def bodies(self) -> list[dict[str, Any]]:
        """``{"path", "headers", "body"}`` of each request, in the order in which they came."""
        kept: list[dict[str, Any]] = self._ask("/_bodies")  # type: ignore[assignment]
        return kept

    def records(self) -> bytes:
        """What an endpoint with `counts_only` keeps of its requests; `counting.parse_records` reads it."""
        with _no_proxy.open(self.root_url + "/_records", timeout=30) as response:
            kept: bytes = response.read()
            return kept

    def set_rules(self, rules: list[dict[str, Any]]) -> None:
        """Replace the script, with fresh counts."""
        self._ask("/_rules", json.dumps(rules).encode())

    def kill(self) -> None:
        """End the endpoint at once, as a crash would."""
        self.process.kill()
        self.process.wait()

    def _ask(self, path: str, body: bytes | None = None) -> dict[str, Any]:
        with _no_proxy.open(self.root_url + path, data=body, timeout=30) as response:
            answer: dict[str, Any] = json.load(response)
            return answer


def arguments_of(options: dict[str, Any]) -> list[str]:
    """Keywords as command line options: ``latency_ms=5`` is ``--latency-ms 5``."""
    words: list[str] = []
    for name, value in options.items():
        if name == "bill_aborted":
            words += [] if value else ["--no-bill-aborted"]
            continue
        option = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            words += [option] if value else []
        elif name == "rules" and not isinstance(value, str | Path):
            words += [option, json.dumps(value)]
        elif isinstance(value, list | tuple):
            words += [option, ",".join(value)]
        elif value is not None:
            words.append(f"{option}={value}")
    return words


@contextmanager
def running_endpoint(**options: Any) -> Iterator[RunningEndpoint]:
    """An endpoint for the length of a `with`; options as in the package's docstring.

    It ends with the block, and also when this process dies: its stdin is a pipe that closes then.
    """
    arguments = arguments_of(options)
    given, hold = os.pipe()
    process = warm.start(
        "tests.endpoint.__main__:main", arguments, cwd=ROOT, environment=os.environ, stdin=given, stderr=2
    )
    os.close(given)
    try:
        first = process.stdout.readline()
        if not first:
            raise RuntimeError(f"the endpoint did not start: {arguments}")
        yield RunningEndpoint(process, json.loads(first))
    finally:
        os.close(hold)
        process.stdout.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
