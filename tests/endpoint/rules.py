"""The script: which rule decides about a request, and how often it may."""

from collections import Counter
from typing import Any

from .answers import Request
from .streams import STREAMS

MATCHES = frozenset({"prompt", "contains", "turn", "model", "from_request", "to_request", "seen"})
ACTIONS = frozenset(
    {
        "status", "headers", "body", "content_type", "html", "error", "text", "reasoning", "reasoning_field",
        "tool_calls", "finish_reason", "usage", "usage_factor", "latency_ms", "bill", "fault",
        "stream",
    }
)  # fmt: skip
FAULTS = frozenset({"close", "reset", "cut", "hang", "half_json", "garbage", "endless", "trickle"})
NOTHING: dict[str, Any] = {}


class Rule:
    """One rule and how often it was used."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.match: dict[str, Any] = spec.get("match", {})
        self.then: dict[str, Any] = spec.get("then", {})
        self.times: int | None = spec.get("times")
        self.skip: int = spec.get("skip", 0)
        self.each: bool = spec.get("each", False)
        self.used: Counter[str] = Counter()
        unknown = (
            (spec.keys() - {"match", "then", "times", "skip", "each"})
            | (self.match.keys() - MATCHES)
            | (self.then.keys() - ACTIONS)
            | ({self.then["fault"]} - FAULTS if "fault" in self.then else set())
            | (set(self.then.get("stream") or {}) - STREAMS)
        )
        if unknown:
            raise ValueError(f"rule {spec!r}: unknown {sorted(unknown)}")

    def takes(self, request: Request, number: int, seen: int) -> bool:
        """Whether this rule decides about the request; counts its use when it does."""
        if not self._matches(request, number, seen):
            return False
        key = request.prompt if self.each else ""
        self.used[key] += 1
        place = self.used[key] - self.skip
        return place > 0 and (self.times is None or place <= self.times)

    def _matches(self, request: Request, number: int, seen: int) -> bool:
        match = self.match
        return (
            match.get("prompt", request.prompt) == request.prompt
            and match.get("contains", "") in request.prompt
            and match.get("turn", request.turn) == request.turn
            and match.get("model", request.model) == request.model
            and match.get("from_request", 0) <= number <= match.get("to_request", number)
            and match.get("seen", seen) == seen
        )


class Script:
    """All rules, in order."""

    def __init__(self, specs: list[dict[str, Any]]) -> None:
        self.rules = [Rule(spec) for spec in specs]

    def decide(self, request: Request, number: int, seen: int) -> dict[str, Any]:
        """What to do with this request: the `then` of the first rule that takes it."""
        for rule in self.rules:
            if rule.takes(request, number, seen):
                return rule.then
        return NOTHING
