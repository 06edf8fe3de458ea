"""What a run says that it spent, beside what its endpoint billed."""

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from eventlog.events import BudgetReserved, decode_event
from eventlog.storage import LogReader
from evrun.prices import parse_price
from evrun.rates import round_up, times
from projections import RunState, fold_log, idempotency_key
from projections.audit import checks
from tests.endpoint.client import RunningEndpoint
from tests.runs import wait_until


class Account(NamedTuple):
    """Nano-USD: what the log says at a stop, and `truth`, what the endpoint billed."""

    settled: int
    in_doubt: int
    reserved: int
    cap: int | None
    truth: int
    state: RunState

    @property
    def most(self) -> int:
        """The most that can have been spent, as the log knows it."""
        return self.settled + self.in_doubt + self.reserved


def account(run: Path, endpoint: RunningEndpoint, price: str) -> Account:
    """Look at both sides while no process works on the run and the endpoint is at rest."""
    wait_until(lambda: endpoint.totals()["in_flight"] == 0, "the endpoint to come to rest")
    with LogReader.open(run / "log") as reader:
        state = fold_log(reader)
    total = state.ledger.total
    return Account(
        total.settled_nano_usd,
        total.in_doubt_nano_usd,
        total.reserved_nano_usd,
        state.ledger.caps.get("usd"),
        billed(endpoint.requests(), price),
        state,
    )


def billed(requests: list[dict[str, Any]], price: str) -> int:
    """What these requests cost by the endpoint's own account, in nano-USD, each rounded up."""
    rates = parse_price(price)[1]
    return sum(
        round_up(
            times(rates.input.base, request["input_tokens"])
            + times(rates.output.base, request["output_tokens"])
        )
        for request in requests
        if request["billed"]
    )


def check_promise(found: Account, *caps: int) -> None:
    """The promise about money, at any stop: the truth is in the bracket, and both are within the cap.

    `caps` are those that were in force since the run began; the largest counts.
    """
    assert found.settled <= found.truth <= found.most, found[:5]
    if caps:
        assert found.truth <= found.most <= max(caps), found[:5]
    bad = [check for check in checks(found.state.ledger, found.state.batch) if not check["ok"]]
    assert bad == []
    assert found.state.ledger.over_bound == 0


def check_all_named(run: Path, endpoint: RunningEndpoint) -> None:
    """Every request that the endpoint saw is a call in the log, known by its idempotency key."""
    with LogReader.open(run / "log") as reader:
        events = [decode_event(record.payload) for record in reader.read()]
    known = Counter(
        idempotency_key(event.unit, event.attempt, event.request)
        for event in events
        if isinstance(event, BudgetReserved)
    )
    seen = Counter(request["idempotency_key"] for request in endpoint.requests())
    assert seen <= known, seen - known
