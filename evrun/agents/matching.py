"""What an own agent asks again, matched with what its attempt has recorded. Pure.

An agent's code is not in the log, only what it asked and was answered. So it runs from its beginning in each
session, and every request that it makes again gets the recorded answer: the same requests in the order in
which they were recorded, whatever the order in which different ones come.
"""

from collections import defaultdict, deque

from projections import Exchange, Exchanges, ToolUse


class Matcher:
    """Hands out the recorded answers of an attempt, each once."""

    def __init__(self, recorded: Exchanges | None) -> None:
        self._answered: defaultdict[bytes, deque[Exchange]] = defaultdict(deque)
        self._asked: set[bytes] = set()
        self._unclaimed = 0
        for exchange in () if recorded is None else recorded.made:
            self._asked.add(exchange.request)
            if exchange.body is not None or exchange.refused is not None:
                self._answered[exchange.request].append(exchange)
                self._unclaimed += 1

    @property
    def unclaimed(self) -> int:
        """How many recorded answers nobody has asked for again."""
        return self._unclaimed

    def claim(self, digest: bytes) -> Exchange | None:
        """The next recorded answer to this request; null if there is none (any more)."""
        waiting = self._answered.get(digest)
        if not waiting:
            return None
        self._unclaimed -= 1
        return waiting.popleft()

    def knows(self, digest: bytes) -> bool:
        """Whether this request was recorded before, answered or not."""
        return digest in self._asked


class ToolMatcher:
    """The same for the durable tool calls of an agent's code."""

    def __init__(self, recorded: Exchanges | None) -> None:
        self._recorded: defaultdict[tuple[str, bytes], deque[ToolUse]] = defaultdict(deque)
        self._interrupted: defaultdict[tuple[str, bytes], deque[int]] = defaultdict(deque)
        self._unclaimed = 0
        self.next_number = 0
        for number, use in () if recorded is None else sorted(recorded.tools.items()):
            self.next_number = number + 1
            if use.content is not None:
                self._recorded[use.tool, use.arguments].append(use)
                self._unclaimed += 1
            else:
                self._interrupted[use.tool, use.arguments].append(number)

    @property
    def unclaimed(self) -> int:
        """How many recorded results nobody has asked for again."""
        return self._unclaimed

    def claim(self, tool: str, arguments: bytes) -> ToolUse | None:
        """The next recorded result of this call; null if there is none (any more)."""
        waiting = self._recorded.get((tool, arguments))
        if not waiting:
            return None
        self._unclaimed -= 1
        return waiting.popleft()

    def number_for(self, tool: str, arguments: bytes) -> int:
        """The number of a call without a result: that of the same one that was cut short, else a new one."""
        waiting = self._interrupted.get((tool, arguments))
        return waiting.popleft() if waiting else self.take_number()

    def take_number(self) -> int:
        """The number of a call that is new."""
        number = self.next_number
        self.next_number += 1
        return number
