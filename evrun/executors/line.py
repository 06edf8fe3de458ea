"""What carries messages between a driver and one worker."""

from typing import Protocol


class LineBroken(Exception):
    """Nothing more comes from a worker, or it cannot be told anything; says why."""


class Line(Protocol):
    """What carries messages to one worker and back, in order. `name` says who it is and where."""

    name: str

    async def hear(self) -> list[bytes]:
        """What the worker says; waits until there is something.

        Raises:
            LineBroken: it is gone.
        """

    async def say(self, messages: list[bytes]) -> None:
        """Carry these to the worker.

        Raises:
            LineBroken: it is gone.
        """

    async def end(self) -> None:
        """Let the worker end by itself, for a short while; then end it whatever it does."""

    def cut(self) -> None:
        """End the worker, whatever it does."""
