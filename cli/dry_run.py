"""What `evrun run --dry-run` prints: the bounds of a run that was only thought through."""

from typing import Any

from evrun.batch import CAP_OPTIONS, REFUSAL_TOKENS, RESULT_TOKENS, CapOutlook, DryRun
from projections import cap_amount, usd

from . import output

NANOSECONDS = 10**9
PROMPT_CHARACTERS = 40


def as_report(found: DryRun, run: str) -> dict[str, Any]:
    """What scripts read. Money is an exact decimal string in USD; null is what nobody can say."""
    bounds, settings = found.bounds, found.settings
    return {
        "run": run,
        "sequence": found.going_on,
        "held": found.held,
        "model": settings.model,
        "base_url": settings.base_url,
        "price": None if found.price is None else found.price.source,
        "units": found.units,
        "refused": found.refused,
        "calls": {"lower": bounds.calls_lower, "upper": bounds.calls_upper},
        "usd": {
            "lower": _usd(bounds.nano_lower),
            "once": _usd(bounds.once_nano),
            "upper": _usd(bounds.nano_upper),
        },
        "tokens": {
            "lower": bounds.tokens_lower,
            "once": bounds.once_tokens,
            "upper": bounds.tokens_upper,
            "input_lower": bounds.input_lower,
            "input_upper": bounds.input_upper,
            "output_lower": bounds.output_lower,
            "output_upper": bounds.output_upper,
        },
        "rows": [
            {
                "unit": row.unit,
                "prompt_index": row.prompt_index,
                "prompt": row.prompt[:PROMPT_CHARACTERS],
                "calls_upper": row.bounds.calls_upper,
                "lower_usd": _usd(row.bounds.nano_lower),
                "once_usd": _usd(row.bounds.once_nano),
                "upper_usd": _usd(row.bounds.nano_upper),
                "lower_tokens": row.bounds.tokens_lower,
                "upper_tokens": row.bounds.tokens_upper,
            }
            for row in found.rows
        ],
        "caps": [_cap(cap) for cap in found.caps],
        "assumptions": assumptions(found),
    }


def _cap(cap: CapOutlook) -> dict[str, Any]:
    numbers = {name: _number(cap.cap, getattr(cap, name)) for name in ("limit", "left", "lower", "upper")}
    return {"cap": cap.cap, **numbers, "suffices": cap.suffices, "why": cap.why}


def _number(cap: str, value: int | None) -> str | int | float | None:
    if value is None:
        return None
    if cap in {"usd", "prompt_usd"}:
        return usd(value)
    return value / NANOSECONDS if cap == "hours" else value


def _usd(nano: int | None) -> str | None:
    return None if nano is None else usd(nano)


def assumptions(found: DryRun) -> list[str]:
    """How the bounds were made, and what is taken for granted; a sentence each."""
    settings = found.settings
    sends = settings.retries + 1
    most = (
        f"at most: every turn that may come (--max-turns {settings.max_turns}; 3 where there are no tools),"
        f" with all that came before; each sent {sends} times (--retries {settings.retries}), always billed"
    )
    said = [_LOWER, _ONCE, most, _GRANTED, _RESERVED]
    if found.bounds.output_upper is None:
        said.append("how long an answer can be is not known: --max-tokens says it")
    if found.price is None:
        said.append(
            f"UNPRICED: what {settings.model} costs at this endpoint is not known, so no sum in USD is; "
            f"--price {settings.model}=INPUT,OUTPUT gives it"
        )
    return said


_LOWER = (
    "at least: one call for each prompt that is left; a token for each word of its messages, and one token of"
    " answer; the cheapest rates"
)
_ONCE = (
    "once: one call for each prompt at what is reserved for it: the bytes of the request and an allowance"
    " around them, the whole output cap, the dearest rates"
)
_GRANTED = (
    "taken for granted: the provider keeps to the output cap; an answer is no longer when it is sent back;"
    f" the tools of one turn give back at most {RESULT_TOKENS} tokens, refused calls {REFUSAL_TOKENS}"
)
_RESERVED = (
    "reservations count bytes, not tokens: near a cap a run may pause before the cap is really used up"
)


def show(found: DryRun, run: str) -> None:
    """The same for people."""
    bounds = found.bounds
    output.facts(
        [
            ("dry run", f"{run}: nothing was sent, nothing was written"),
            *_place(found),
            ("model", f"{found.settings.model} at {found.settings.base_url or 'a port of its own'}"),
            ("price", "UNPRICED: not known" if found.price is None else found.price.source),
            ("prompts", _prompts(found)),
            ("calls", f"at least {bounds.calls_lower}, at most {bounds.calls_upper}"),
            ("USD", _range(*map(_usd, (bounds.nano_lower, bounds.once_nano, bounds.nano_upper)))),
            ("tokens", _range(bounds.tokens_lower, bounds.once_tokens, bounds.tokens_upper)),
            *[(f"cap {CAP_OPTIONS[cap.cap]}", _suffices(cap)) for cap in found.caps],
        ]
    )
    output.table(
        ["index", "prompt", "calls at most", "USD at least", "once", "at most", "tokens at most"],
        [
            [
                row.prompt_index,
                " ".join(row.prompt.split())[:PROMPT_CHARACTERS],
                row.bounds.calls_upper,
                *map(_shown, map(_usd, (row.bounds.nano_lower, row.bounds.once_nano, row.bounds.nano_upper))),
                _shown(row.bounds.tokens_upper),
            ]
            for row in found.rows
        ],
        title="the rows that may cost most",
    )
    output.line("")
    for sentence in assumptions(found):
        output.line(f"- {sentence}")


def _place(found: DryRun) -> list[tuple[str, object]]:
    if found.going_on is None:
        return []
    held = "; a process works on it now, so less is left meanwhile" if found.held else ""
    return [("goes on", f"from event {found.going_on}{held}")]


def _prompts(found: DryRun) -> str:
    refused = f", {found.refused} of them will fail: a cwd without an image" if found.refused else ""
    return f"{found.units} to do{refused}"


def _suffices(cap: CapOutlook) -> str:
    words = {"yes": "suffices", "no": "does NOT suffice", "perhaps": "may not suffice", "unknown": "unknown"}
    return f"{cap_amount(cap.cap, cap.limit)}, {words[cap.suffices]}: {cap.why}"


def _range(*bounds: object) -> str:
    lower, once, upper = map(_shown, bounds)
    return f"at least {lower}, once {once}, at most {upper}"


def _shown(value: object) -> object:
    return "unknown" if value is None else value
