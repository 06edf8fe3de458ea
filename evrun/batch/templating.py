"""Whether what is asked can be honoured: by what it says, and by the rows that a log holds."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from projections import BatchState, RowSource, is_batch_line, row_messages, template_fields

from ..errors import UsageFault
from .dataset_lines import BatchLines
from .dataset_terms import Terms, terms_of
from .settings import Settings

_MAY_BE_ASKED = frozenset({"open", "pending", "failed", "discarded"})
MOST_SAID = 20
"""So many rows are named."""


def check_template(settings: Settings) -> None:
    """Refuse a template that would ask every row the same.

    Raises:
        UsageFault: it names no field.
    """
    if not template_fields(settings.template):
        raise UsageFault(
            f"--template {settings.template!r}: expected a field of the rows in braces, found none",
            hint="for example --template 'Answer in one word: {prompt}'",
        )


def check_change_fits(
    recorded: Settings, settings: Settings, batch: BatchState, rows: RowSource, again: str
) -> None:
    """Refuse a change that the rows in the log do not fit; `again` says how to give a dataset.

    Raises:
        UsageFault: a template names other fields than before, or a row that may still be asked cannot be.
    """
    # Another model is nothing that a row could fit or not: the run's is asked.
    terms = terms_of(settings)._replace(model="")
    if terms == terms_of(recorded)._replace(model=""):
        return
    if terms.fields != template_fields(recorded.template):
        raise UsageFault(
            f"--template {settings.template!r} names other fields than before, and rows are known by these",
            hint=again,
        )
    unfit = _unfit(terms, batch, rows)
    bad = [f"prompt_index {index}: {found}" for index, found in islice(unfit, MOST_SAID)]
    if bad:
        others = sum(1 for _ in unfit)
        listing = "\n".join([*bad, *([f"and {others} more"] if others else [])])
        raise UsageFault(f"rows of this run do not fit what is asked now\n{listing}", hint=again)


def _unfit(terms: Terms, batch: BatchState, rows: RowSource) -> Iterator[tuple[int, str]]:
    """The rows that may still be asked and cannot be, each once, with what is wrong."""
    lines = BatchLines(terms)
    before: tuple[int, int] | None = None
    for unit in batch.units.values():
        place = (unit.planned, unit.position)
        # Samples that were planned together stand together.
        if unit.gone or unit.outcome not in _MAY_BE_ASKED or place == before:
            continue
        before = place
        row = rows.row_of(unit)
        found = lines.complaint(unit.index, row) if is_batch_line(row) else _unaskable(row, terms)
        if found is not None:
            yield unit.index, found


def _unaskable(row: dict[str, Any], terms: Terms) -> str | None:
    try:
        row_messages(row, {"template": terms.template})
    except ValueError as error:
        return str(error)
    return None
