"""Whether a template can be honoured: by what it says, and by the rows that a log holds."""

from projections import BatchState, RowSource, row_messages, template_fields

from ..errors import UsageFault
from .settings import Settings

_MAY_BE_ASKED = frozenset({"open", "pending", "failed", "discarded"})
MOST_SAID = 20
"""So many rows are named that a template does not fit."""


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


def check_template_change(
    recorded: Settings, settings: Settings, batch: BatchState, rows: RowSource, again: str
) -> None:
    """Refuse another template that the rows in the log do not fit; `again` says how to give a dataset.

    Raises:
        UsageFault: it names other fields than before, or a row that is still to be asked does not fit.
    """
    if recorded.template == settings.template:
        return
    if template_fields(recorded.template) != template_fields(settings.template):
        raise UsageFault(
            f"--template {settings.template!r} names other fields than before, and rows are known by these",
            hint=again,
        )
    bad: list[str] = []
    seen: set[tuple[int, int]] = set()
    for unit in batch.units.values():
        place = (unit.planned, unit.position)
        if unit.gone or unit.outcome not in _MAY_BE_ASKED or place in seen:
            continue
        seen.add(place)
        try:
            row_messages(rows.row_of(unit), {"template": settings.template})
        except ValueError as error:
            bad.append(f"prompt_index {unit.index}: {error}")
    if bad:
        more = [f"and {len(bad) - MOST_SAID} more"] if len(bad) > MOST_SAID else []
        listing = "\n".join(bad[:MOST_SAID] + more)
        raise UsageFault(f"--template {settings.template!r}: rows that do not fit it\n{listing}", hint=again)
