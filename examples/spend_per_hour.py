"""A projection of one's own, `spend_per_hour.py:SpendPerHour`: what a run cost in each hour."""

from collections import Counter
from datetime import UTC, datetime
from typing import Any

from eventlog.events import BudgetSpent, Recorded, SpendCorrected, SpendInDoubt
from projections import usd

NS_PER_HOUR = 3_600_000_000_000


class SpendPerHour:
    """Adds up settled money by the hour in which it was settled, and notes calls whose cost nobody knows."""

    def initial(self) -> dict[str, Counter[int]]:
        """No hours yet: nano-USD, settled calls and calls in doubt, each by hour since 1970."""
        return {"nano_usd": Counter(), "calls": Counter(), "in_doubt": Counter()}

    def apply(self, state: dict[str, Counter[int]], record: Recorded) -> None:
        """Money moved in an hour; all other events change nothing."""
        hour = record.time_ns // NS_PER_HOUR
        match record.event:
            case BudgetSpent(cost_nano_usd=cost):
                state["calls"][hour] += 1
                state["nano_usd"][hour] += cost or 0
            case SpendCorrected(cost_nano_usd=cost):
                state["nano_usd"][hour] += cost
            case SpendInDoubt():
                state["in_doubt"][hour] += 1
            case _:
                pass

    def render(self, state: dict[str, Counter[int]]) -> list[dict[str, Any]]:
        """One object an hour, the first hour first."""
        hours = sorted(set().union(*state.values()))
        return [
            {
                "hour": datetime.fromtimestamp(hour * 3600, UTC).strftime("%Y-%m-%dT%H:00Z"),
                "calls": state["calls"][hour],
                "in_doubt": state["in_doubt"][hour],
                "usd": usd(state["nano_usd"][hour]),
            }
            for hour in hours
        ]
