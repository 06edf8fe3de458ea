"""What every outcome means: one table, a row for each way in which endpoints say no."""

# ruff: noqa: E501  # a table reads best with a row a line
import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evrun.effects.llm_outcomes import Answered, Lost, NotSent
from evrun.providers import classify, parse_retry_after
from evrun.providers.provider_errors import read_error

NOW = datetime(2026, 11, 29, 12, 0, 0, tzinfo=UTC)
NOW_NS = int(NOW.timestamp()) * 10**9
GOOD = {"choices": [{"message": {"content": "four"}, "finish_reason": "stop"}], "usage": {}}


def answered(status, body=b"", **headers):
    """A response; `headers` with underscores for hyphens."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Answered(status, raw, {name.replace("_", "-"): value for name, value in headers.items()}, 5)


def error(message="", **fields):
    """An error object in the usual shape."""
    return {"error": {"message": message, **fields}}


def verdict(sent, *, any_success=True):
    """What the outcome means, now."""
    return classify(sent, any_success=any_success, now_ns=NOW_NS)


http_date = format_datetime(NOW + timedelta(seconds=90), usegmt=True)

# sent, before any success?, kind, error class, wait in ms, billed
TABLE = {
    "a plain answer": (answered(200, GOOD), False, "answer", "", None, "unknown"),
    "an answer with an unknown finish reason is an answer": (
        answered(200, {"choices": [{"message": {"content": "x"}, "finish_reason": "tired"}]}),
        False, "answer", "", None, "unknown",
    ),
    "an answer without content is an answer": (
        answered(200, {"choices": [{"message": {"content": ""}, "finish_reason": "stop"}]}),
        False, "answer", "", None, "unknown",
    ),
    "an empty body": (answered(200), False, "retry", "unreadable_answer", None, "unknown"),
    "half a JSON": (answered(200, b'{"choices": [{"mess'), False, "retry", "unreadable_answer", None, "unknown"),
    "an HTML page": (answered(200, b"<!DOCTYPE html><p>hi"), False, "retry", "unreadable_answer", None, "unknown"),
    "a JSON array": (answered(200, b"[1]"), False, "retry", "unreadable_answer", None, "unknown"),
    "no choices": (answered(200, {"choices": []}), False, "retry", "unreadable_answer", None, "unknown"),
    "a choice without message": (
        answered(200, {"choices": [{"text": "x"}]}), False, "retry", "unreadable_answer", None, "unknown",
    ),
    "200 with a rate limit inside": (
        answered(200, error("slow down", code=429)), False, "pause", "rate_limited", None, "no",
    ),
    "200 with a server error inside": (
        answered(200, error("upstream failed", code=502)), False, "retry", "server_error", None, "unknown",
    ),
    "200 with an error in the choice": (
        answered(200, {"choices": [{"message": {"content": "par"}, "error": {"code": 502, "message": "x"}}]}),
        False, "retry", "server_error", None, "unknown",
    ),
    "200 with a context error inside": (
        answered(200, error("too long", code="context_length_exceeded")),
        False, "fail_prompt", "context_length", None, "unknown",
    ),
    "200 with an error of words only": (
        answered(200, {"error": "out of memory"}), False, "retry", "server_error", None, "unknown",
    ),
    "a message of Anthropic's dialect": (
        answered(200, {"type": "message", "content": [{"type": "text", "text": "four"}], "stop_reason": "end_turn"}),
        False, "answer", "", None, "unknown",
    ),
    "the same without anything in it": (
        answered(200, {"type": "message", "content": [], "stop_reason": None}),
        False, "retry", "unreadable_answer", None, "unknown",
    ),
    "200 with Anthropic's overload inside, from a stream": (
        answered(200, {"type": "error", **error("Overloaded", type="overloaded_error")}),
        False, "retry", "server_error", None, "unknown",
    ),
    "200 with a rate limit inside, after a part of the answer": (
        answered(200, {**error("slow down", code=429), "choices": [{"message": {"content": "par"}}]}),
        False, "pause", "rate_limited", None, "unknown",
    ),
    "200 with Anthropic's rate limit inside, after a part of the answer": (
        answered(200, {**error("slow down", type="rate_limit_error"), "content": [{"type": "text", "text": "a"}]}),
        False, "pause", "rate_limited", None, "unknown",
    ),
    "200 with Anthropic's bill inside": (
        answered(200, error("pay", type="billing_error")), False, "quota", "quota_exhausted", None, "no",
    ),
    "200 with Anthropic's permission inside": (
        answered(200, error("no", type="permission_error")), False, "stop_run", "auth", None, "unknown",
    ),
    "200 with Anthropic's size inside": (
        answered(200, error("big", type="request_too_large")), False, "fail_prompt", "request_too_large", None, "unknown",
    ),
    "400 about counting a stream's tokens": (
        answered(400, error("Unrecognized request argument supplied: stream_options")),
        False, "stop_run", "no_streaming", None, "no",
    ),
    "400 with Anthropic's spending limit": (
        answered(400, error("You have reached your specified API usage limits.", type="invalid_request_error")),
        False, "quota", "quota_exhausted", None, "no",
    ),
    "429 with Anthropic's spending limit": (
        answered(429, error("limited", type="rate_limit_error", details={"error_code": "enforced_spend_limit_reached"})),
        False, "quota", "quota_exhausted", None, "no",
    ),
    "404 with Anthropic's model": (
        answered(404, error("model: claude-9", type="not_found_error")), True, "stop_run", "model_not_found", None, "no",
    ),
    "400 with Anthropic's context": (
        answered(400, error("input length and `max_tokens` exceed context limit: 9 + 9 > 10")),
        False, "fail_prompt", "context_length", None, "no",
    ),
    "529 with a wait": (
        answered(529, error("Overloaded", type="overloaded_error"), retry_after="2"),
        False, "pause", "overloaded", 2000, "unknown",
    ),
    "529": (
        answered(529, error("Overloaded", type="overloaded_error")), False, "retry", "server_error", None, "unknown",
    ),
    "401": (answered(401, error("Incorrect API key")), True, "stop_run", "auth", None, "no"),
    "403 with an auth code": (
        answered(403, error("no", code="invalid_api_key")), False, "stop_run", "auth", None, "no",
    ),
    "403 before any success": (answered(403, b"Forbidden"), True, "stop_run", "auth", None, "no"),
    "403 later": (answered(403, b"Forbidden"), False, "fail_prompt", "forbidden", None, "no"),
    "403 for a moderated prompt": (
        answered(403, error("Your chosen model requires moderation and your input was flagged", code=403,
                            metadata={"reasons": ["violence"], "flagged_input": "…"})),
        True, "fail_prompt", "content_policy", None, "no",
    ),
    "403 for a key's own limit": (
        answered(403, error("Key limit exceeded (total limit)")), False, "quota", "quota_exhausted", None, "no",
    ),
    "429 with seconds": (answered(429, b"", retry_after="20"), False, "pause", "rate_limited", 20_000, "no"),
    "429 with a fraction": (answered(429, b"", retry_after="1.25"), False, "pause", "rate_limited", 1250, "no"),
    "429 with a date": (answered(429, b"", retry_after=http_date), False, "pause", "rate_limited", 90_000, "no"),
    "429 with milliseconds": (
        answered(429, b"", retry_after_ms="1500", retry_after="2"), False, "pause", "rate_limited", 1500, "no",
    ),
    "429 with a hint in the body": (
        answered(429, error("Rate limit reached. Please try again in 20s.")),
        False, "pause", "rate_limited", 20_000, "no",
    ),
    "429 with a delay in the body": (
        answered(429, [error("You exceeded your current quota", code=429, status="RESOURCE_EXHAUSTED",
                             details=[{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}])]),
        False, "pause", "rate_limited", 34_000, "no",
    ),
    "429 with reset headers": (
        answered(429, b"", x_ratelimit_reset_requests="1m30s", x_ratelimit_remaining_requests="0",
                 x_ratelimit_reset_tokens="8h", x_ratelimit_remaining_tokens="900"),
        False, "pause", "rate_limited", 90_000, "no",
    ),
    "429 without any wait": (answered(429, b"busy"), False, "pause", "rate_limited", None, "no"),
    "429 that says wait 0": (answered(429, b"", retry_after="0"), False, "pause", "rate_limited", None, "no"),
    "429 monthly limit": (
        answered(429, error("Monthly limit reached"), retry_after="30"), False, "quota", "quota_exhausted", None, "no",
    ),
    "429 insufficient quota": (
        answered(429, error("You exceeded your current quota, please check your plan", code="insufficient_quota")),
        True, "quota", "quota_exhausted", None, "no",
    ),
    "429 quota without a wait": (
        answered(429, error("Quota exceeded for this project")), False, "quota", "quota_exhausted", None, "no",
    ),
    "429 that asks for three days": (
        answered(429, b"", retry_after=str(3 * 86400)), False, "quota", "quota_exhausted", 259_200_000, "no",
    ),
    "429 for a request that can never pass": (
        answered(429, error("Request too large for gpt-4o on tokens per min: Limit 30000, Requested 50000"),
                 x_ratelimit_reset_tokens="1s"),
        False, "fail_prompt", "request_too_large", None, "no",
    ),
    "402 with a wait": (answered(402, b"", retry_after="30"), False, "pause", "rate_limited", 30_000, "no"),
    "402 without": (answered(402, error("Insufficient credits")), False, "quota", "quota_exhausted", None, "no"),
    "400 for an empty account": (
        answered(400, error("Your credit balance is too low to access the API", type="invalid_request_error")),
        False, "quota", "quota_exhausted", None, "no",
    ),
    "503 with a wait": (answered(503, b"", retry_after="7"), False, "pause", "overloaded", 7000, "unknown"),
    "503 without": (answered(503, b"busy"), False, "retry", "server_error", None, "unknown"),
    "500": (answered(500, error("boom")), False, "retry", "server_error", None, "unknown"),
    "502 HTML": (answered(502, b"<html><h1>Bad gateway"), False, "retry", "server_error", None, "unknown"),
    "408": (answered(408), False, "retry", "timeout", None, "unknown"),
    "409": (answered(409), False, "retry", "conflict", None, "no"),
    "425": (answered(425), False, "retry", "conflict", None, "no"),
    "400": (answered(400, error("bad temperature")), True, "fail_prompt", "bad_request", None, "no"),
    "400 over the context": (
        answered(400, error("This model's maximum context length is 8192 tokens", code="context_length_exceeded")),
        True, "fail_prompt", "context_length", None, "no",
    ),
    "400 content policy": (
        answered(400, error("The response was filtered", innererror={"code": "ResponsibleAIPolicyViolation"})),
        True, "fail_prompt", "content_policy", None, "no",
    ),
    "404 model before any success": (
        answered(404, error("The model `x` does not exist", code="model_not_found")),
        True, "stop_run", "model_not_found", None, "no",
    ),
    "404 model later": (
        answered(404, error("The model `x` does not exist")), False, "fail_prompt", "model_not_found", None, "no",
    ),
    "400 that means the model": (
        answered(400, error("x/y is not a valid model ID")), True, "stop_run", "model_not_found", None, "no",
    ),
    "404 page before any success": (answered(404, b"nginx"), True, "stop_run", "not_found", None, "no"),
    "404 page later": (answered(404, b"nginx"), False, "fail_prompt", "not_found", None, "no"),
    "413": (answered(413, b""), False, "fail_prompt", "request_too_large", None, "no"),
    "422": (answered(422, {"detail": [{"msg": "field required", "type": "missing"}]}),
            True, "fail_prompt", "bad_request", None, "no"),
    "a redirect": (answered(307, b"", location="https://other/v1"), True, "stop_run", "not_found", None, "no"),
    "connection refused": (NotSent("connect", "no"), True, "retry", "connection", None, "no"),
    "no address": (NotSent("dns", "no"), True, "retry", "connection", None, "no"),
    "no connection in time": (NotSent("connect_timeout", "no"), True, "retry", "timeout", None, "no"),
    "no answer in time": (Lost("timeout", "no", 9), False, "retry", "timeout", None, "unknown"),
    "a broken connection": (Lost("connection", "no", 9), False, "retry", "connection", None, "unknown"),
    "no HTTP": (Lost("protocol", "no", 9), False, "retry", "connection", None, "unknown"),
    "a body that is not gzip": (Lost("decoding", "no", 9), False, "retry", "unreadable_answer", None, "unknown"),
    "an endless body": (Lost("too_large", "no", 9), False, "fail_prompt", "answer_too_large", None, "unknown"),
}  # fmt: skip


@pytest.mark.parametrize("row", TABLE.values(), ids=TABLE.keys())
def test_every_outcome_has_its_meaning(row):
    """The kind decides what the run does, the class what is counted, the wait when, and billed what is booked."""
    sent, first, kind, error_class, wait_ms, billed = row
    found = verdict(sent, any_success=not first)
    assert (found.kind, found.error_class, found.wait_ms, found.billed) == (
        kind,
        error_class,
        wait_ms,
        billed,
    )
    assert found.retryable == (kind in {"retry", "pause", "quota"})


def test_the_message_is_the_providers_own_and_short():
    """People search for the words that the provider used; a page of them helps nobody."""
    assert verdict(answered(400, error("No such tool: ßäö"))).message == "No such tool: ßäö"
    assert verdict(answered(400, error("x" * 9000))).message == "x" * 500
    assert verdict(answered(500, b"  <html>\n <b>Bad</b>\n")).message == "<html> <b>Bad</b>"
    assert verdict(answered(422, {"detail": [{"msg": "field required"}]})).message == "field required"
    assert verdict(answered(500)).message == "the response has no body"


def test_a_redirect_says_which_address_to_give():
    """Following it would send the key and the prompt to a place that nobody named."""
    assert "https://other/v1" in verdict(answered(308, b"", location="https://other/v1")).message


def test_the_status_is_recorded_where_there_was_one():
    """No status is null, never 0."""
    assert verdict(answered(429)).status == 429
    assert verdict(NotSent("dns", "no")).status is None
    assert verdict(Lost("timeout", "no", 1)).status is None


WAITS = [
    ({"retry-after": "120"}, b"", 120_000),
    ({"retry-after": " 0.5 "}, b"", 500),
    ({"retry-after": "1m30s"}, b"", 90_000),
    ({"retry-after": http_date}, b"", 90_000),
    ({"retry-after": "Sunday, 29-Nov-26 12:01:00 GMT"}, b"", 60_000),
    ({"retry-after": "2026-11-29T12:00:10Z"}, b"", 10_000),
    ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, b"", 0),
    ({"retry-after": "-5"}, b"", 0),
    ({"retry-after": "soon"}, b"", None),
    ({"retry-after": "nan"}, b"", None),
    ({"retry-after": "inf"}, b"", None),
    ({"retry-after-ms": "20"}, b"", 20),
    ({"retry-after-ms": "x", "retry-after": "3"}, b"", 3000),
    ({"x-ratelimit-reset": "1795953630000"}, b"", 30_000),
    ({"x-ratelimit-reset": "1795953630"}, b"", 30_000),
    ({"x-ratelimit-reset": "45"}, b"", 45_000),
    ({"x-ratelimit-reset-tokens": "7.66s"}, b"", 7660),
    ({"x-ratelimit-reset-requests": "6m0s", "x-ratelimit-reset-tokens": "20ms"}, b"", 20),
    ({"anthropic-ratelimit-requests-reset": "2026-11-29T12:00:30Z",
      "anthropic-ratelimit-requests-remaining": "0",
      "anthropic-ratelimit-tokens-reset": "2026-11-29T12:00:05Z",
      "anthropic-ratelimit-tokens-remaining": "77"}, b"", 30_000),
    ({}, b'{"error": {"message": "Please try again in 350ms."}}', 350),
    ({}, b'{"error": {"message": "Please try again in 6m0s."}}', 360_000),
    ({}, b'{"error": {"message": "Please try again in 1h2m3.5s. Visit us"}}', 3_723_500),
    ({}, b'{"error": {"message": "Please retry after 26 seconds."}}', 26_000),
    ({}, b'{"error": {"message": "Try again in 1 minute and 5 seconds"}}', 65_000),
    ({}, b"Too many requests, wait 2 minutes", 120_000),
    ({}, b'{"error": {"retry_after": 12.5}}', 12_500),
    ({}, b'{"retryAfterMs": 77}', 77),
    ({}, b'{"error": {"metadata": {"headers": {"X-RateLimit-Reset": "1795953630000"}}}}', 30_000),
    ({}, b'{"error": {"message": "tried again, 20 times"}}', None),
    ({}, b'{"error": {"message": "limit of 20 per minute"}}', None),
    ({}, b"\xff\xfe", None),
    ({}, b"", None),
]  # fmt: skip


@pytest.mark.parametrize(("headers", "body", "wait_ms"), WAITS)
def test_every_form_of_a_wait_is_read(headers, body, wait_ms):
    """Seconds, fractions, spans, dates, moments since the epoch, headers of limits, fields and words."""
    assert parse_retry_after(headers, body, NOW_NS) == wait_ms


@given(
    st.dictionaries(st.sampled_from(["retry-after", "retry-after-ms", "x-ratelimit-reset"]), st.text()),
    st.binary(),
)
def test_no_header_and_no_body_breaks_the_reading_of_waits(headers, body):
    """An endpoint may say anything; a wait is null, or between now and a year from now."""
    wait = parse_retry_after(headers, body, NOW_NS)
    assert wait is None or 0 <= wait <= 366 * 86_400_000


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["error", "code", "message", "choices", "status", "type", "metadata", "retry_after"]
            ),
            inner,
        )
    ),
    max_leaves=12,
)


@given(st.sampled_from([200, 204, 301, 400, 401, 402, 403, 404, 418, 429, 500, 503]), JSON, st.booleans())
def test_no_body_breaks_the_classification(status, value, any_success):
    """Whatever the JSON, there is one verdict, its message is short, and only a 2xx is ever an answer."""
    found = verdict(answered(status, value), any_success=any_success)
    assert len(found.message) <= 500
    assert found.kind != "answer" or status // 100 == 2
    assert found.billed == "unknown" or status // 100 != 5


@given(st.binary(max_size=200), st.sampled_from([200, 400, 429, 500]))
def test_no_bytes_break_the_classification(body, status):
    """The same for bytes that are no JSON."""
    assert verdict(answered(status, body)).message is not None


def test_a_deeply_nested_body_is_only_unreadable():
    """A parser's own limit is not the run's end."""
    deep = b"[" * 100_000
    assert verdict(answered(200, deep)).kind == "retry"
    assert verdict(answered(429, deep)).kind == "pause"
    assert read_error(deep).codes == frozenset()


def test_a_long_body_of_numbers_is_searched_for_words_in_no_time():
    """The search for a wait in words must not run away on bytes that almost fit."""
    body = b"retry in " + b"1 1h " * 100_000
    assert parse_retry_after({}, body, NOW_NS) is None or parse_retry_after({}, body, NOW_NS) >= 0
