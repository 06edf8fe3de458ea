"""What the kept trajectories add up to: calls, turns with reasoning, tools."""

import msgspec

from eventlog.events import Counts


class Tally(msgspec.Struct):
    """Sums over trajectories. `tools` maps a tool to [count, success, failure].

    `reasoning_tokens` is a sum over the `reports` trajectories that reported them.
    """

    trajectories: int = 0
    api_calls: int = 0
    turns_with_reasoning: int = 0
    turns_without_reasoning: int = 0
    reasoning_tokens: int = 0
    reports: int = 0
    tools: dict[str, list[int]] = {}

    def add(self, counts: Counts, sign: int = 1) -> None:
        """Add what a trajectory counts, or take it away again with `sign` -1."""
        self.trajectories += sign
        self.api_calls += sign * counts.api_calls
        self.turns_with_reasoning += sign * counts.turns_with_reasoning
        self.turns_without_reasoning += sign * counts.turns_without_reasoning
        if counts.reasoning_tokens is not None:
            self.reasoning_tokens += sign * counts.reasoning_tokens
            self.reports += sign
        for tool, numbers in counts.tools.items():
            sums = self.tools.setdefault(tool, [0, 0, 0])
            for place, number in enumerate(numbers):
                sums[place] += sign * number

    @property
    def tool_calls(self) -> int:
        """How many tool calls there are in all trajectories together."""
        return sum(numbers[0] for numbers in self.tools.values())
