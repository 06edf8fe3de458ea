"""A recording endpoint with a handler that answers as the loopback endpoint of the tests does."""

import asyncio
import contextlib
import json
from typing import Any, NamedTuple

from evrun.agents.endpoint import Asked, RecordingEndpoint, Reply
from tests.endpoint.answers import answer, read_request
from tests.endpoint.rules import Script

DEFAULTS = {
    "text": "Answer to {prompt}",
    "reasoning": "I thought about {prompt}",
    "reasoning_field": "reasoning_content",
}
MODEL = "test-model"


class Answers:
    """A handler: what was asked is in `asked`; `rules` are those of tests.endpoint."""

    def __init__(self, rules: list[dict[str, Any]] | None = None) -> None:
        self.asked: list[Asked] = []
        self.script = Script(rules or [])

    async def __call__(self, asked: Asked) -> Reply:
        """The answer, by the script."""
        self.asked.append(asked)
        place = (len(self.asked), sum(one.body == asked.body for one in self.asked))
        if asked.path == "embeddings":
            return Reply(200, embeddings_of(asked.body))
        body = asked.body if asked.path == "chat/completions" else as_chat(asked.body)
        request = read_request(body)
        then = self.script.decide(request, *place)
        if "error" in then:
            return Reply(
                then["status"], json.dumps({"error": then["error"]}).encode(), then.get("headers", {})
            )
        whole = answer(request, then, DEFAULTS).body
        return Reply(200, whole if asked.path == "chat/completions" else as_response(whole))

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The bodies of what was asked, read."""
        return [json.loads(one.body) for one in self.asked]


class Recording(NamedTuple):
    """An open endpoint, a token of it, that token's handler, and what the endpoint noted."""

    endpoint: RecordingEndpoint
    token: str
    answers: Any
    notes: list[str]

    @property
    def key(self) -> dict[str, str]:
        """The header that carries the token."""
        return {"Authorization": f"Bearer {self.token}"}


@contextlib.asynccontextmanager
async def recording(handler=None, *, models=(MODEL,)):
    """An endpoint with one token admitted."""
    notes: list[str] = []
    handler = handler or Answers()
    async with RecordingEndpoint(list(models), notes.append) as endpoint:
        yield Recording(endpoint, endpoint.admit(handler), handler, notes)


def run(body, handler=None, **options):
    """Run `body(recording)` in a loop of its own."""

    async def inside():
        async with asyncio.timeout(60), recording(handler, **options) as open_endpoint:
            return await body(open_endpoint)

    return asyncio.run(inside())


def embeddings_of(body: bytes) -> bytes:
    """One short vector for each input: its length and its words."""
    given = json.loads(body)["input"]
    texts = given if isinstance(given, list) else [given]
    vectors = [[len(text) / 2, float(len(text.split()))] for text in texts]
    data = [{"object": "embedding", "index": n, "embedding": vector} for n, vector in enumerate(vectors)]
    usage = {"prompt_tokens": 3, "total_tokens": 3}
    return json.dumps({"object": "list", "data": data, "model": MODEL, "usage": usage}).encode()


def as_chat(body: bytes) -> bytes:
    """A Responses request as the chat request that the test endpoint's answers are made from."""
    asked = json.loads(body)
    given = asked["input"]
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    messages: list[dict[str, Any]] = []
    for item in items:
        if item.get("role") in ("user", "system"):
            messages.append(item)
        elif item.get("type") == "function_call_output":
            messages.append({"role": "tool", "content": item["output"]})
        elif not messages or messages[-1]["role"] != "assistant":
            messages.append({"role": "assistant"})
    return json.dumps({"model": asked["model"], "messages": messages}).encode()


def as_response(whole: bytes) -> bytes:
    """A chat completion as the response that says the same."""
    completion = json.loads(whole)
    message = completion["choices"][0]["message"]
    thought = [{"type": "summary_text", "text": message.get("reasoning_content", "")}]
    output: list[dict[str, Any]] = [{"id": "rs_1", "type": "reasoning", "summary": thought}]
    if message["content"]:
        part = {"type": "output_text", "text": message["content"], "annotations": [], "logprobs": []}
        head = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed"}
        output.append({**head, "content": [part]})
    for call in message.get("tool_calls", []):
        said = {"call_id": call["id"], **call["function"], "status": "completed"}
        output.append({"id": f"fc_{call['id']}", "type": "function_call", **said})
    usage = completion["usage"]
    tokens = {
        "input_tokens": usage["prompt_tokens"],
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": usage["completion_tokens"],
        "output_tokens_details": usage["completion_tokens_details"],
        "total_tokens": usage["total_tokens"],
    }
    return json.dumps(
        {
            "id": "resp_1",
            "object": "response",
            "created_at": 1700000000,
            "status": "completed",
            "model": completion["model"],
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": tokens,
        }
    ).encode()
