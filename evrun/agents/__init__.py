"""Agents of people's own, and the programs that know nothing of evrun."""

from .calls import AgentCalls
from .choice import own_agent
from .context import CallRefused, Completion, Context
from .runner import Agent, AgentRunner

__all__ = [
    "Agent",
    "AgentCalls",
    "AgentRunner",
    "CallRefused",
    "Completion",
    "Context",
    "own_agent",
]
