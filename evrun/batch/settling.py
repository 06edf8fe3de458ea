"""Settling calls in doubt by hand: somebody has the invoice, and knows what they cost."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path

from eventlog.events import (
    BudgetReleased,
    BudgetReserved,
    BudgetSpent,
    Event,
    SpendCorrected,
    encode_event,
)
from eventlog.storage import LogReader, lock_holder
from projections import Ledger, RunState, fold_log, open_run_views, recorded, usd

from ..caps import parse_nano_usd
from ..errors import UsageFault
from .opening import open_writer, orphaned


def parse_settlements(texts: Iterable[str]) -> dict[str, int]:
    """What was typed as ``CALL=USD``, in nano-USD by call.

    Raises:
        UsageFault: another form, a call that is named twice, or no amount from 0 in whole nano-USD.
    """
    amounts: dict[str, int] = {}
    for text in texts:
        call, equals, amount = (part.strip() for part in text.rpartition("="))
        if not equals or not call:
            raise UsageFault(f"--settle {text!r}: expected CALL=USD", "for example --settle s1.c7=0.0042")
        if call in amounts:
            raise UsageFault(f"--settle: call {call} is named twice", "say once what it cost")
        amounts[call] = parse_nano_usd(amount, f"--settle {call}")
    return amounts


def corrections(ledger: Ledger, amounts: Mapping[str, int], note: str) -> list[Event]:
    """The events that settle these calls, for one commit; all of them must be in `settleable`.

    A call that a dead session left reserved goes in doubt first, as it would at a resume.
    """
    doubts = [doubt for doubt in orphaned(ledger) if doubt.call in amounts]
    return [*doubts, *(SpendCorrected(call, nano, note) for call, nano in amounts.items())]


def settleable(ledger: Ledger) -> set[str]:
    """The calls that a person may settle: in doubt, left reserved by a dead session, or corrected before."""
    return {*ledger.in_doubt, *ledger.reserved, *ledger.corrected}


def settle_calls(
    directory: Path, amounts: Mapping[str, int], note: str, warn: Callable[[str], None]
) -> RunState:
    """Record what calls in doubt cost, in one commit, and write the views anew; the state afterwards.

    It opens no session: a run that is paused, interrupted or done stays so. What is refused changes nothing.

    Raises:
        UsageFault: a call that is not in doubt, or a note that is no text.
        LogLocked, LogRefused: a process works on the run, or its log is not whole.
    """
    _check_note(note)
    state = None
    if lock_holder(directory / "log") is None:
        with closing(LogReader.open(directory / "log")) as reader:
            state = _checked(reader, amounts)
    with closing(open_writer(directory, warn)) as writer:
        reader = writer.reader()
        if state is None or state.sequence != reader.end.sequence:
            state = _checked(reader, amounts)
        writer.append([encode_event(event) for event in corrections(state.ledger, amounts, note)])
        reader.refresh()
        try:
            views = open_run_views(directory, reader)
            views.finish()
        except OSError as error:
            warn(f"views could not be written: {error}; `evrun replay` makes them again")
            return fold_log(reader)
        return views.state


def _check_note(note: str) -> None:
    try:
        note.encode()
    except UnicodeEncodeError as error:
        raise UsageFault(f"--note holds what is no text: {error}") from error


def _checked(reader: LogReader, amounts: Mapping[str, int]) -> RunState:
    """The state of the run, in which all these calls can be settled."""
    state = fold_log(reader)
    others = amounts.keys() - settleable(state.ledger)
    if others:
        raise UsageFault(
            f"nothing was settled: {'; '.join(_why_not(reader, others))}",
            "`evrun audit RUN` lists the calls in doubt; only those can be settled",
        )
    return state


def _why_not(reader: LogReader, calls: Iterable[str]) -> list[str]:
    """What the log says of each of these calls."""
    found = {call: f"there is no call {call} in this run" for call in sorted(calls)}
    for record in recorded(reader):
        event = record.event
        if not isinstance(event, BudgetReserved | BudgetSpent | BudgetReleased) or event.call not in found:
            continue
        match event:
            case BudgetSpent(cost_nano_usd=cost):
                price = "at a price that is not known" if cost is None else f"at {usd(cost)} USD"
                found[event.call] = f"call {event.call} was settled by its answer, {price}"
            case BudgetReleased(reason=reason):
                found[event.call] = f"call {event.call} certainly cost nothing: {reason}"
            case BudgetReserved():
                found[event.call] = f"call {event.call} is not in doubt"
    return list(found.values())
