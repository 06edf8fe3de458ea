"""Attempts and answers, as tests of the acting side make them."""

import json

from eventlog.events import (
    BudgetReserved,
    BudgetSpent,
    ModelAnswered,
    PromptStarted,
    ToolFinished,
    ToolStarted,
    Usage,
)
from evrun.batch.brief import Brief
from evrun.batch.decide import Send, next_step
from evrun.batch.settings import Settings, settings_digest, settings_record
from evrun.ledger import request_digest
from projections import Attempt
from tests.evrun.boxes import BOX

UNIT = "prompt:" + "0" * 32 + "#1.1"
TOOLS = BOX.definitions(["file"])["file"]


def brief(row=None, tools=TOOLS, **values):
    """What an attempt works from."""
    settings = Settings(**{"dataset": "d", "model": "m", "base_url": "http://127.0.0.1:9/v1", **values})
    return Brief(row or {"prompt": "p"}, settings, settings_record(settings), tools, settings.seed)


def call(name="read_file", arguments='{"path": "f"}', identity="c"):
    """A tool call."""
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def body(text="four", finish="stop", reasoning="thought", calls=(), **more):
    """A response body; `finish` null leaves it out."""
    message = {"role": "assistant", "content": text, "reasoning": reasoning}
    if calls:
        message["tool_calls"] = list(calls)
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return json.dumps({"choices": [choice], **more}).encode()


class Talk:
    """An attempt, grown by its events."""

    def __init__(self, given_brief, attempt=1):
        self.brief = given_brief
        digest = settings_digest(given_brief.settings)
        self.attempt = Attempt.start(PromptStarted(UNIT, attempt, ["file"], digest), 0, 1)

    def reserve(self, request=None):
        """The event that opens the next turn, with the digest of the very request that is due."""
        if request is None:
            step = next_step(self.attempt, self.brief)
            request = request_digest(step.body) if isinstance(step, Send) else b"none"
        number = self.attempt.calls + 1
        return BudgetReserved(f"s1.c{number}", UNIT, 1, "rollout", "m", "h", request, None, 1, None, "a test")

    def ask(self, request=None):
        """A request is on its way."""
        self.attempt.reserved(self.reserve(request))
        return self

    def say(self, **answer):
        """A request was sent and answered."""
        self.ask()
        name = self.attempt.turns[-1].call
        self.attempt.spent(BudgetSpent(name, Usage(5, None, 3, None), None, None))
        self.attempt.answered(ModelAnswered(name, body(**answer), 1, None))
        return self

    def start_tool(self, position=0):
        """A tool call of the last turn runs."""
        self.attempt.tool_started(ToolStarted(UNIT, 1, len(self.attempt.turns), position, "t", b"d"))
        return self

    def end_tool(self, position=0, content=b'{"error": null}'):
        """It has ended; without `start_tool` it never ran."""
        turn = len(self.attempt.turns)
        self.attempt.tool_finished(ToolFinished(UNIT, 1, turn, position, content, True, 1))  # noqa: FBT003
        return self

    def work(self, name="read_file"):
        """A turn of one tool call that ran."""
        return self.say(finish="tool_calls", calls=[call(name)]).start_tool().end_tool()

    def stumble(self):
        """A turn of one tool call that could not run."""
        return self.say(finish="tool_calls", calls=[call("nosuch")]).end_tool()

    def next(self):
        """The next step."""
        return next_step(self.attempt, self.brief)
