"""The recording endpoint's face: who is let in, which paths there are, what an error looks like."""

import asyncio
import json

import httpx
import pytest

from evrun.agents import endpoint as module
from evrun.agents.endpoint import Reply, environment_for

from .recording import MODEL, Answers, run

CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}]}


def exchange(method, path, *, handler=None, key=True, headers=None, **options):
    """One request to an endpoint of its own: the response, what was asked, what was noted."""

    async def body(open_endpoint):
        root = open_endpoint.endpoint.base_url.removesuffix("/v1")
        sent = {**(open_endpoint.key if key else {}), **(headers or {})}
        async with httpx.AsyncClient(trust_env=False) as client:
            response = await client.request(method, root + path, headers=sent, **options)
        return response, getattr(open_endpoint.answers, "asked", None), open_endpoint.notes

    return run(body, handler)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/chat/completions", "//v1//chat/completions/"])
def test_a_question_goes_to_its_handler_and_the_answer_comes_back_whole(path):
    """With `/v1` and without, and however an address and a path were joined."""
    response, asked, notes = exchange("POST", path, json=CHAT)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json; charset=utf-8"
    assert response.json()["choices"][0]["message"]["content"] == "Answer to hi"
    assert [(one.path, json.loads(one.body)) for one in asked] == [("chat/completions", CHAT)]
    assert notes == []


def test_several_answers_to_one_question_go_through_as_they_are():
    """`n` is the provider's matter."""
    response, _, _ = exchange("POST", "/v1/chat/completions", json=CHAT | {"n": 3})
    assert [choice["index"] for choice in response.json()["choices"]] == [0, 1, 2]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/models", "/v1/none", "/"])
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer sk-evrun-00"},
        {"Authorization": "Basic dXNlcg=="},
        {"api-key": "x"},
        {"x-api-key": "\xff"},
    ],
    ids=str,
)
def test_strangers_are_refused_everywhere_and_nothing_else_happens(path, headers):
    """An OpenAI client shows them an authentication error; no handler hears of it; the note is one line."""
    method = "GET" if path == "/v1/models" else "POST"
    sent = {name: value.encode("latin-1") for name, value in headers.items()}
    response, asked, notes = exchange(method, path, key=False, headers=sent, content=b"{}")
    assert response.status_code == 401
    assert response.json()["error"]["code"] == "invalid_api_key"
    assert response.json()["error"]["type"] == "authentication_error"
    assert asked == []
    assert notes == ["a request without a valid token was refused, and recorded nowhere"]


@pytest.mark.parametrize("name", ["api-key", "x-api-key", "authorization"])
def test_a_token_may_come_in_any_of_the_headers_that_clients_use(name):
    """OpenAI's, Azure's and Anthropic's way."""

    async def body(open_endpoint):
        value = ("bearer  " if name == "authorization" else "") + open_endpoint.token
        async with httpx.AsyncClient(trust_env=False) as client:
            url = open_endpoint.endpoint.base_url + "/models"
            return (await client.get(url, headers={name: value})).status_code

    assert run(body) == 200


@pytest.mark.parametrize(
    ("request_line", "content", "status", "code", "said"),
    [
        ("POST /v1/completions", b"{}", 404, "unknown_url", "chat/completions, responses, embeddings"),
        ("GET /", b"", 404, "unknown_url", "GET models"),
        ("GET /v1/chat/completions", b"", 405, "method_not_allowed", "wants POST, this is GET"),
        ("POST /v1/models", b"{}", 405, "method_not_allowed", "wants GET, this is POST"),
        ("DELETE /v1/models/m", b"", 405, "method_not_allowed", "wants GET, this is DELETE"),
        ("POST /v1/responses", b"[]", 400, "invalid_json", "a JSON object was expected, this is a list"),
        ("POST /v1/embeddings", b"{", 400, "invalid_json", "at line 1, column 2"),
        ("POST /v1/chat/completions", b"\xff", 400, "invalid_json", "not UTF-8"),
        ("GET /v1/models/none", b"", 404, "model_not_found", "There is: test-model"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_the_shape_of_openai(request_line, content, status, code, said):
    """The message says what there is; nothing reaches a handler; clients do not try again."""
    response, asked, _ = exchange(*request_line.split(), content=content)
    assert response.status_code == status
    error = response.json()["error"]
    assert (error["code"], error["type"], error["param"]) == (code, "invalid_request_error", None)
    assert said in error["message"]
    assert response.headers["x-should-retry"] == "false"
    assert asked == []


def test_a_wrong_method_is_told_the_right_one():
    """In the header that HTTP has for it."""
    assert exchange("GET", "/v1/responses")[0].headers["allow"] == "POST"
    assert exchange("PUT", "/models/m")[0].headers["allow"] == "GET"


def test_a_body_over_the_limit_is_refused(monkeypatch):
    """A program gone wild cannot fill the memory of the run."""
    monkeypatch.setattr(module, "LARGEST_BODY", 1000)
    response, asked, _ = exchange("POST", "/v1/chat/completions", content=b'{"a": "' + b"x" * 2000 + b'"}')
    assert (response.status_code, response.json()["error"]["code"]) == (413, "request_too_large")
    assert asked == []
    large, asked, _ = exchange("POST", "/v1/chat/completions", json=CHAT | {"user": "x" * 800})
    assert (large.status_code, len(asked)) == (200, 1)


def test_models_are_listed_and_found_by_name():
    """Names with a slash in them too."""

    async def body(open_endpoint):
        url = open_endpoint.endpoint.base_url + "/models"
        async with httpx.AsyncClient(trust_env=False, headers=open_endpoint.key) as client:
            listed = (await client.get(url)).json()
            return listed, [(await client.get(f"{url}/{name}")).json() for name in ("b/c", "b%2Fc")]

    listed, found = run(body, models=["a", "b/c"])
    assert (listed["object"], [model["id"] for model in listed["data"]]) == ("list", ["a", "b/c"])
    assert found == [listed["data"][1]] * 2


def refusing(status, headers):
    """A handler that refuses with an error of the provider's."""

    async def handler(asked):
        return Reply(status, b'{"error": {"message": "slow down", "code": "c"}}', headers)

    return handler


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("status", [400, 402, 429, 503])
def test_an_error_is_json_with_its_status_for_streams_too(status, stream):
    """The handler's headers come along, but for those that are the server's own or no headers at all."""
    headers = {"retry-after": "7", "Content-Length": "1", "transfer-encoding": "x", "x-bad": "a\r\nx-b: c"}
    handler = refusing(status, headers)
    response, _, _ = exchange("POST", "/v1/chat/completions", handler=handler, json=CHAT | {"stream": stream})
    assert response.status_code == status
    assert response.json() == {"error": {"message": "slow down", "code": "c"}}
    assert response.headers["retry-after"] == "7"
    assert "x-bad" not in response.headers
    assert "x-b" not in response.headers


def test_a_handler_that_raises_is_a_500_and_a_note():
    """The program gets an error that it does not repeat, and the next question is answered."""

    class Fails(Answers):
        async def __call__(self, asked):
            if not self.asked:
                self.asked.append(asked)
                raise RuntimeError("no more disk")
            return await super().__call__(asked)

    async def body(open_endpoint):
        url = open_endpoint.endpoint.base_url + "/chat/completions"
        async with httpx.AsyncClient(trust_env=False, headers=open_endpoint.key) as client:
            return [await client.post(url, json=CHAT) for _ in range(2)], open_endpoint.notes

    (first, second), notes = run(body, Fails())
    assert (first.status_code, first.json()["error"]["type"]) == (500, "server_error")
    assert "disk" not in first.text
    assert notes == ["what answers a program failed: RuntimeError('no more disk')"]
    assert second.status_code == 200


def test_an_answer_that_is_no_completion_cannot_be_a_stream():
    """Whole it goes through as it is; a stream of it is an error that says why."""

    async def handler(asked):
        return Reply(200, b'{"answer": 42}')

    whole, _, _ = exchange("POST", "/v1/chat/completions", handler=handler, json=CHAT)
    assert (whole.status_code, whole.json()) == (200, {"answer": 42})
    streamed, _, _ = exchange("POST", "/v1/chat/completions", handler=handler, json=CHAT | {"stream": True})
    assert (streamed.status_code, streamed.json()["error"]["code"]) == (502, "unreadable_answer")
    assert "no list of choices" in streamed.json()["error"]["message"]


@pytest.mark.parametrize("path", ["chat/completions", "responses"])
def test_the_same_answer_streams_the_very_same_bytes(path):
    """A program that is answered from the record cannot tell that it is."""

    async def body(open_endpoint):
        url = f"{open_endpoint.endpoint.base_url}/{path}"
        asked = {"model": MODEL, "input": "hi"} if path == "responses" else CHAT
        async with httpx.AsyncClient(trust_env=False, headers=open_endpoint.key) as client:
            return [(await client.post(url, json=asked | {"stream": True})) for _ in range(2)]

    first, second = run(body)
    assert first.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert first.content == second.content
    assert first.content.count(b"data: ") > 5


def test_a_body_that_does_not_come_whole_reaches_nobody():
    """A program killed while it writes its request has asked nothing."""

    async def body(open_endpoint):
        port = int(open_endpoint.endpoint.base_url.split(":")[2].removesuffix("/v1"))
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {open_endpoint.token}"
        writer.write(head.encode() + b'\r\ncontent-length: 100\r\n\r\n{"model"')
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        async with httpx.AsyncClient(trust_env=False, headers=open_endpoint.key) as client:
            response = await client.post(open_endpoint.endpoint.base_url + "/chat/completions", json=CHAT)
        return response.status_code, len(open_endpoint.answers.asked)

    assert run(body) == (200, 1)


def test_the_environment_of_a_program_says_where_to_ask_and_with_which_token():
    """No key of the user's is in it, and a proxy of theirs is passed by."""

    async def body(open_endpoint):
        return (
            open_endpoint.endpoint.base_url,
            open_endpoint.token,
            environment_for(*open_endpoint[:2], MODEL),
        )

    base_url, token, names = run(body)
    assert base_url.startswith("http://127.0.0.1:")
    assert base_url.endswith("/v1")
    assert names["OPENAI_BASE_URL"] == names["OPENAI_API_BASE"] == base_url
    assert (names["OPENAI_API_KEY"], names["OPENAI_MODEL"]) == (token, MODEL)
    assert "127.0.0.1" in names["NO_PROXY"] == names["no_proxy"]
