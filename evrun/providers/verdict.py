"""What an outcome of a request means for the run: go on, wait, try again, fail the prompt, or stop. Pure.

Nothing here knows a provider by name. A status says the most, a code in the body more than words, and words
only decide between meanings that a status leaves open.
"""

from functools import lru_cache
from typing import Any, Literal

import msgspec

from projections import parse_answer

from ..effects.llm_outcomes import Answered, Lost, NotSent
from .provider_errors import ProviderError, error_of, read_error
from .retry_after import explicit_wait, parse_retry_after

Kind = Literal["answer", "retry", "pause", "fail_prompt", "stop_run", "quota"]
Billed = Literal["no", "unknown"]

LONGEST_PAUSE_MS = 24 * 3_600_000
"""Who asks to wait longer than a day means a quota: the run is paused and its process ends."""

_LOST_CLASSES = {"timeout": "timeout", "decoding": "unreadable_answer", "too_large": "answer_too_large"}


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """What to do, and what to record.

    `wait_ms` is what the provider asked for (null: it did not say). `retryable` says whether the same request
    may succeed later. `billed` "no" means that the call certainly cost nothing.
    """

    kind: Kind
    error_class: str
    message: str
    status: int | None
    retryable: bool
    wait_ms: int | None
    billed: Billed


class _Message(msgspec.Struct, gc=False):
    """A message: that it is an object is all that is asked."""


class _Choice(msgspec.Struct, gc=False):
    message: _Message
    error: Any = None


class _Shape(msgspec.Struct, gc=False):
    choices: list[_Choice]
    error: Any = None


_shape = msgspec.json.Decoder(_Shape)
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def classify(sent: Answered | NotSent | Lost, *, any_success: bool, now_ns: int) -> Verdict:
    """The meaning of an outcome.

    `any_success` says whether the endpoint has answered this run before: what can only be a wrong set-up
    before the first answer may be one prompt's own trouble after it. `now_ns` is the wall clock, for waits
    given as dates.
    """
    if isinstance(sent, NotSent):
        error_class = "timeout" if sent.reason == "connect_timeout" else "connection"
        return _verdict("retry", error_class, sent.message, billed="no")
    if isinstance(sent, Lost):
        return _lost(sent)
    if 200 <= sent.status < 300:  # noqa: PLR2004  # success
        return _success(sent, any_success=any_success, now_ns=now_ns)
    return _refusal(sent, read_error(sent.body), sent.status, any_success=any_success, now_ns=now_ns)


def _verdict(
    kind: Kind,
    error_class: str,
    message: str,
    *,
    status: int | None = None,
    wait_ms: int | None = None,
    billed: Billed = "no",
) -> Verdict:
    # An endpoint may repeat half of a character that it cut in two; the log holds only whole ones.
    whole = message[:500].encode("utf-8", "replace").decode()
    return Verdict(kind, error_class, whole, status, kind in _LATER, wait_ms, billed)


_LATER = frozenset({"retry", "pause", "quota"})


def _lost(sent: Lost) -> Verdict:
    error_class = _LOST_CLASSES.get(sent.reason, "connection")
    kind: Kind = "fail_prompt" if sent.reason == "too_large" else "retry"
    return _verdict(kind, error_class, sent.message, billed="unknown")


def _success(sent: Answered, *, any_success: bool, now_ns: int) -> Verdict:
    """A 2xx is an answer when it can be read, whatever it says; an error in it counts as that error."""
    try:
        shape = _shape.decode(sent.body)
    except _UNREADABLE:
        return _odd_success(sent, any_success=any_success, now_ns=now_ns)
    error = shape.error or next((choice.error for choice in shape.choices if choice.error), None)
    if error is not None:
        return _error_inside(sent, error, any_success=any_success, now_ns=now_ns)
    if not shape.choices:
        return _unreadable(sent, "the response has no choices")
    return _answer(sent.status)


@lru_cache(maxsize=16)
def _answer(status: int) -> Verdict:
    """The same for every answer, whoever gave it."""
    return _verdict("answer", "", "", status=status, billed="unknown")


def _odd_success(sent: Answered, *, any_success: bool, now_ns: int) -> Verdict:
    """A 2xx without the shape of an answer: an error object, an answer of a laxer spelling, or neither."""
    try:
        value = msgspec.json.decode(sent.body)
    except _UNREADABLE:
        value = None
    if isinstance(value, dict) and value.get("error"):
        return _error_inside(sent, value["error"], any_success=any_success, now_ns=now_ns)
    answer = parse_answer(sent.body)
    if answer.problem is None or answer.finish_reason is not None or answer.text or answer.tool_calls:
        return _answer(sent.status)
    return _unreadable(sent, answer.problem)


def _unreadable(sent: Answered, problem: str) -> Verdict:
    return _verdict("retry", "unreadable_answer", problem, status=sent.status, billed="unknown")


def _error_inside(sent: Answered, inside: Any, *, any_success: bool, now_ns: int) -> Verdict:
    """An error told with status 200: work may have been done before it, so its cost is unknown."""
    error = error_of({"error": inside}, sent.body)
    status = error.status or _status_of_codes(error)
    verdict = _refusal(sent, error, status, any_success=any_success, now_ns=now_ns)
    refused = status in {401, 402, 429} and not _begun(sent.body)
    billed: Billed = "no" if refused else "unknown"
    return msgspec.structs.replace(verdict, status=sent.status, billed=billed)


def _begun(body: bytes) -> bool:
    """Whether a part of an answer came before the error, as in a stream."""
    try:
        value = msgspec.json.decode(body)
    except _UNREADABLE:
        return True
    return isinstance(value, dict) and bool(value.get("choices") or value.get("content"))


def _status_of_codes(error: ProviderError) -> int:
    """The status that an error without one would have had."""
    if error.has_code("overloaded"):
        return 529
    if error.has_code("billing_error"):
        return 402
    if error.has_code("request_too_large"):
        return 413
    if error.has_code("permission"):
        return 403
    if error.has_code("rate_limit", "resource_exhausted", "too_many_requests", "insufficient_quota"):
        return 429
    if error.has_code("auth", "api_key"):
        return 401
    if error.has_code("invalid_request", "context_length", "content_policy", "content_filter", "bad_request"):
        return 400
    return 500


def _refusal(sent: Answered, error: ProviderError, status: int, *, any_success: bool, now_ns: int) -> Verdict:
    """The meaning of an error that the endpoint told, by its status."""
    wait_ms = parse_retry_after(sent.headers, sent.body, now_ns)
    if status in {402, 429}:
        return _limited(sent, error, status, now_ns)
    if status in {503, 529} and wait_ms:
        return _pause("overloaded", error.message, status, wait_ms, "unknown")
    if status >= 500:  # noqa: PLR2004  # the server's own fault
        return _verdict(
            "retry", "server_error", error.message, status=status, wait_ms=wait_ms, billed="unknown"
        )
    if status in {408, 499}:
        return _verdict("retry", "timeout", error.message, status=status, billed="unknown")
    if status in {409, 425}:
        return _verdict("retry", "conflict", error.message, status=status)
    kind, error_class = _for_good(error, status, any_success=any_success)
    message = error.message
    if 300 <= status < 400:  # noqa: PLR2004  # a redirect
        message = (
            f"the endpoint redirects to {sent.headers.get('location', 'nowhere')}: give that as --base-url"
        )
    if error_class == "no_streaming":
        message = f"{message}; go on with --resume --no-stream: without usage no stream can be accounted for"
    return _verdict(kind, error_class, message, status=status)


def _limited(sent: Answered, error: ProviderError, status: int, now_ns: int) -> Verdict:
    """402 and 429: a rate to wait for, a quota that waiting does not help, or a request too large for any."""
    if error.says("request too large for", "request is too large for") and status == 429:  # noqa: PLR2004
        return _verdict("fail_prompt", "request_too_large", error.message, status=status)
    if _certain_quota(error):
        return _verdict("quota", "quota_exhausted", error.message, status=status)
    asked = explicit_wait(sent.headers, sent.body, now_ns)
    if asked:
        return _pause("rate_limited", error.message, status, asked, "no")
    if status == 402 or _likely_quota(error):  # noqa: PLR2004
        return _verdict("quota", "quota_exhausted", error.message, status=status)
    wait_ms = parse_retry_after(sent.headers, sent.body, now_ns)
    return _pause("rate_limited", error.message, status, wait_ms or None, "no")


def _pause(error_class: str, message: str, status: int, wait_ms: int | None, billed: Billed) -> Verdict:
    if wait_ms is not None and wait_ms > LONGEST_PAUSE_MS:
        days = wait_ms / 86_400_000
        words = f"asked to wait {days:.1f} days: {message}"
        return _verdict("quota", "quota_exhausted", words, status=status, wait_ms=wait_ms, billed=billed)
    return _verdict("pause", error_class, message, status=status, wait_ms=wait_ms, billed=billed)


def _certain_quota(error: ProviderError) -> bool:
    """A quota even where a wait is named: by its code, or because it is counted by the month."""
    return error.has_code(
        "insufficient_quota", "billing_hard_limit", "billing_not_active", "spend_limit"
    ) or error.says(
        "specified api usage limits",
        "monthly limit",
        "monthly quota",
        "monthly usage",
        "monthly spend",
        "per month",
        "credit balance is too low",
    )


def _likely_quota(error: ProviderError) -> bool:
    """A quota, where no wait is named."""
    return error.has_code("quota", "insufficient_credits", "insufficient_balance", "billing") or error.says(
        "current quota",
        "quota exceeded",
        "exceeded your quota",
        "quota exhausted",
        "out of credits",
        "insufficient credits",
        "insufficient balance",
        "insufficient funds",
        "more credits",
        "spend limit",
        "spending limit",
        "usage limit",
        "billing",
    )


def _for_good(error: ProviderError, status: int, *, any_success: bool) -> tuple[Kind, str]:
    """What no retry helps: whose fault it is, by code, words and status."""
    if status == 401:  # noqa: PLR2004
        return "stop_run", "auth"
    if error.says("stream_options"):
        # It is in every request of a run, so no other prompt would fare better.
        return "stop_run", "no_streaming"
    if _content_policy(error) or status == 451:  # noqa: PLR2004
        return "fail_prompt", "content_policy"
    if status in {400, 403} and (_certain_quota(error) or (status == 403 and _key_limit(error))):  # noqa: PLR2004
        return "quota", "quota_exhausted"
    if status == 403:  # noqa: PLR2004
        return _forbidden(error, any_success=any_success)
    if _model_not_found(error, status):
        return ("fail_prompt" if any_success else "stop_run"), "model_not_found"
    if _context_length(error):
        return "fail_prompt", "context_length"
    if status == 413:  # noqa: PLR2004
        return "fail_prompt", "request_too_large"
    if status in {404, 405, 410} or 300 <= status < 400:  # noqa: PLR2004
        return ("fail_prompt" if any_success else "stop_run"), "not_found"
    return "fail_prompt", "bad_request"


def _forbidden(error: ProviderError, *, any_success: bool) -> tuple[Kind, str]:
    """403 without a word about content: the key's fault where it says so, or where nothing ever worked."""
    about_key = error.has_code(
        "auth", "api_key", "permission", "access_denied", "account", "unsupported_country"
    ) or error.says("api key", "api_key", "not authorized", "unauthorized")
    return ("stop_run", "auth") if about_key or not any_success else ("fail_prompt", "forbidden")


def _key_limit(error: ProviderError) -> bool:
    return error.says("key limit exceeded", "insufficient credits", "insufficient balance", "out of credits")


def _content_policy(error: ProviderError) -> bool:
    codes = (
        "content_policy",
        "content_filter",
        "contentfilter",
        "responsibleai",
        "moderation",
        "flagged",
        "safety",
    )
    return error.has_code(*codes) or error.says(
        "content policy",
        "content management policy",
        "content filter",
        "moderation",
        "flagged",
        "safety system",
    )


def _model_not_found(error: ProviderError, status: int) -> bool:
    if error.has_code("model_not_found", "modelnotfound", "model_not_available", "deploymentnotfound"):
        return True
    if error.says("not a valid model", "no endpoints found", "unknown model", "model not found"):
        return True
    missing = error.says("does not exist", "not found", "not exist", "no such model", "isn't available")
    missing = missing or error.has_code("not_found_error")
    return status == 404 and error.says("model") and missing  # noqa: PLR2004


def _context_length(error: ProviderError) -> bool:
    return error.has_code("context_length", "context_window", "exceed_context_size") or error.says(
        "context length",
        "context window",
        "context size",
        "maximum context",
        "prompt is too long",
        "too many tokens",
        "exceed context limit",
        "input is too long",
        "input tokens exceed",
        "reduce the length",
    )
