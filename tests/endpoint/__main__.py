"""Run the endpoint: ``python -m tests.endpoint --port 0``; the package's docstring lists the options."""

import argparse
import asyncio
import gc
import json
import sys
import threading
from pathlib import Path

from .account import Account
from .counting import CountingAccount
from .rules import Script
from .server import Endpoint, Options


def parsed(arguments: list[str]) -> argparse.Namespace:
    """The command line as a namespace."""
    parser = argparse.ArgumentParser(prog="python -m tests.endpoint")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--stay", action="store_true")
    parser.add_argument("--rules")
    parser.add_argument("--account-file", type=Path)
    parser.add_argument("--counts-only", action="store_true")
    parser.add_argument("--latency-ms", type=float, default=0)
    parser.add_argument("--latency-spread-ms", type=float, default=0)
    parser.add_argument("--api-key")
    parser.add_argument("--models", default="test-model")
    parser.add_argument("--strict-models", action="store_true")
    parser.add_argument("--text", default=Options().text)
    parser.add_argument("--reasoning", default=Options().reasoning)
    parser.add_argument("--reasoning-field", default="reasoning")
    parser.add_argument("--honour-idempotency", action="store_true")
    parser.add_argument("--keep-bodies", action="store_true")
    parser.add_argument("--no-bill-aborted", dest="bill_aborted", action="store_false")
    return parser.parse_args(arguments)


def script_of(rules: str | None) -> Script:
    """The rules from a file, or from the JSON itself."""
    if rules is None:
        return Script([])
    text = rules if rules.lstrip().startswith("[") else Path(rules).read_text(encoding="utf-8")
    return Script(json.loads(text))


def endpoint_of(given: argparse.Namespace) -> Endpoint:
    """The endpoint that a command line asks for."""
    options = Options(
        latency_ms=given.latency_ms,
        latency_spread_ms=given.latency_spread_ms,
        api_key=given.api_key,
        models=tuple(given.models.split(",")),
        strict_models=given.strict_models,
        text=given.text,
        reasoning=given.reasoning,
        reasoning_field=given.reasoning_field,
        honour_idempotency=given.honour_idempotency,
        bill_aborted=given.bill_aborted,
        keep_bodies=given.keep_bodies,
    )
    account = (CountingAccount if given.counts_only else Account)(given.account_file)
    return Endpoint(options, script_of(given.rules), account)


async def serve(given: argparse.Namespace) -> None:
    """Listen, say where, and stay until stdin closes."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    endpoint = endpoint_of(given)
    server = await loop.create_server(endpoint.connect, given.host, given.port, backlog=4096)
    port = server.sockets[0].getsockname()[1]
    sys.stdout.write(json.dumps({"port": port, "base_url": f"http://{given.host}:{port}/v1"}) + "\n")
    sys.stdout.flush()
    if not given.stay:
        threading.Thread(target=_watch, args=(loop, ended), daemon=True).start()
    await ended.wait()


def _watch(loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> None:
    sys.stdin.buffer.read()
    loop.call_soon_threadsafe(ended.set)


def main() -> None:
    """The endpoint that the command line asks for, until stdin closes."""
    gc.freeze()  # entries are kept for good: walking them again and again would slow a long benchmark
    asyncio.run(serve(parsed(sys.argv[1:])))


if __name__ == "__main__":
    main()
