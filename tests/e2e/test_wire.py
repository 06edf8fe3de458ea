"""Every option that goes on the wire, in both dialects: what an endpoint receives, or a refusal before it."""

import itertools
import json
from typing import Any, NamedTuple

import pytest

from tests.cli.shell import evrun
from tests.endpoint.client import running_endpoint
from tests.runs import write_prompts

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
FORMAT = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}}
PREFILL = [{"role": "user", "content": "1?"}, {"role": "assistant", "content": "one"}]
KEY = "a-key-of-the-environment"
NAMES = itertools.count()


class No(str):
    """A refusal: these words stand in the message, exit 2, and nothing is sent."""

    __slots__ = ()


class Row(NamedTuple):
    """Options, and what they change of the plain body in OpenAI's dialect and in Anthropic's."""

    options: list[object]
    openai: dict[str, Any] | No
    anthropic: dict[str, Any] | No


def text(*said: str) -> list[dict[str, str]]:
    """Blocks of text."""
    return [{"type": "text", "text": one} for one in said]


def same(options: list[object], **fields: Any) -> Row:
    """The same fields in both."""
    return Row(options, fields, fields)


USER = {"role": "user", "content": "p"}
USER_BLOCKS = {"role": "user", "content": text("p")}
THINKS = {"thinking": {"type": "adaptive", "display": "summarized"}}
OFF = {"thinking": {"type": "disabled"}}
ROUTES = "routes to nobody else"
TOOLS = ["--toolsets", "terminal"]

TABLE = [
    same([]),
    same(["--model", "other"], model="other"),
    same(["--max-tokens", 7], max_tokens=7),
    same(["--temperature", 0.5], temperature=0.5),
    same(["--temperature", 0], temperature=0),
    Row(["--temperature", 1.5], {"temperature": 1.5}, No("--temperature 1.5: expected 0 to 1")),
    same(["--temperature", "-1"], refused="--temperature -1"),
    same(["--top-p", 0.9], top_p=0.9),
    Row(["--seed", 5], {"seed": 5}, No("--seed: Anthropic's dialect has none")),
    Row(["--reasoning-effort", "high"], {"reasoning_effort": "high"},
        {**THINKS, "output_config": {"effort": "high"}}),
    Row(["--reasoning-effort", "xhigh"], {"reasoning_effort": "xhigh"},
        {**THINKS, "output_config": {"effort": "xhigh"}}),
    Row(["--reasoning-effort", "none"], {"reasoning_effort": "none"}, OFF),
    Row(["--reasoning-disabled"], {"reasoning_effort": "none"}, OFF),
    Row(["--reasoning-effort", "minimal"], {"reasoning_effort": "minimal"}, No("expected none, low, medium")),
    Row(["--reasoning-effort", "low", "--temperature", 0.2],
        {"reasoning_effort": "low", "temperature": 0.2}, No("who thinks has temperature 1")),
    Row(["--reasoning-effort", "low", "--top-p", 0.5],
        {"reasoning_effort": "low", "top_p": 0.5}, No("who thinks has 0.95 or more")),
    same(["--reasoning-effort", "wild"], refused="--reasoning-effort wild"),
    Row(["--response-format", "text"], {"response_format": {"type": "text"}}, {}),
    Row(["--response-format", "json_object"], {"response_format": {"type": "json_object"}},
        No("--response-format json_object")),
    Row(["--response-format", json.dumps(SCHEMA)], {"response_format": FORMAT},
        {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}),
    same(["--response-format", '{"type": "json_schema"}'], refused="json_schema without an object"),
    same(["--response-format", "no-such-file"], refused="--response-format no-such-file"),
    same(["--system-prompt", "be kind"], system="be kind"),
    same(["--ephemeral-system-prompt", "be brief"], system="be brief"),
    same(["--system-prompt", "be kind", "--ephemeral-system-prompt", "be brief"],
         system="be kind\n\nbe brief"),
    Row(["--prefill-messages-file", "prefill.json"], {"messages": [*PREFILL, USER]},
        {"messages": [{"role": "user", "content": text("1?")}, {"role": "assistant", "content": text("one")},
                      USER_BLOCKS]}),
    Row(["--template", "Say {prompt}!"], {"messages": [{"role": "user", "content": "Say p!"}]},
        {"messages": [{"role": "user", "content": text("Say p!")}]}),
    same(["--extra-body", '{"top_k": 3, "stop": ["x"]}'], top_k=3, stop=["x"]),
    same(["--extra-body", '{"stream": true}'], refused="--extra-body stream: evrun sets this itself"),
    same(["--extra-body", "[1]"], refused="--extra-body: expected a JSON object"),
    same(["--extra-body", '{"tool_choice": "auto"}', "--tool-choice", "auto"], refused="contradict"),
    Row(["--extra-body", '{"system": "x"}'], {"system": "x"}, No("--extra-body system")),
    Row(["--extra-body", '{"thinking": {"type": "enabled"}}', "--reasoning-disabled"],
        {"thinking": {"type": "enabled"}, "reasoning_effort": "none"}, No("--extra-body thinking")),
    Row(["--stream"], {"stream": True, "stream_options": {"include_usage": True}}, {"stream": True}),
    same(["--no-stream"]),
    same(["--stream", "--extra-body", '{"stream_options": {}}'], refused="--extra-body stream_options"),
    Row(["--providers-allowed", "a,b"], {"provider": {"only": ["a", "b"]}}, No(ROUTES)),
    Row(["--providers-ignored", "a"], {"provider": {"ignore": ["a"]}}, No(ROUTES)),
    Row(["--providers-order", "b,a"], {"provider": {"order": ["b", "a"]}}, No(ROUTES)),
    Row(["--provider-sort", "price"], {"provider": {"sort": "price"}}, No(ROUTES)),
    same(["--provider-sort", "taste"], refused="--provider-sort taste"),
    Row([*TOOLS, "--tool-choice", "auto"], {"tool_choice": "auto"}, {"tool_choice": {"type": "auto"}}),
    Row([*TOOLS, "--tool-choice", "none"], {"tool_choice": "none"}, {"tool_choice": {"type": "none"}}),
    Row([*TOOLS, "--tool-choice", "required"], {"tool_choice": "required"}, {"tool_choice": {"type": "any"}}),
    Row([*TOOLS, "--tool-choice", "terminal"],
        {"tool_choice": {"type": "function", "function": {"name": "terminal"}}},
        {"tool_choice": {"type": "tool", "name": "terminal"}}),
    Row([*TOOLS, "--tool-choice", "required", "--reasoning-effort", "low"],
        {"tool_choice": "required", "reasoning_effort": "low"}, No("who thinks cannot be made to call")),
    same([*TOOLS, "--tool-choice", "saw"], refused="--tool-choice saw: expected auto, none, required, or"),
    same(["--tool-choice", "required"], refused="--tool-choice required: the run offers no tools"),
    same(["--tool-choice", "auto"]),
    same(["--api-key", KEY], refused="--api-key is refused"),
    same(["--header", "Host=x"], refused="evrun sets this header itself"),
    same(["--header", "Authorization=Bearer abc"], refused="--header Authorization: refused"),
    same(["--header", "x-api-key=abc"], refused="--header x-api-key: refused"),
    same(["--header", "X-Title=$UNSET_VARIABLE"], refused="UNSET_VARIABLE is not set"),
    same(["--header", "X-Title=$5"], refused="a value that begins with $"),
    same(["--header", "plain"], refused="expected NAME=VALUE"),
    *(
        Row(["--agent", "command:true", *options], No("writes its requests itself"), No("command:true"))
        for options in (["--stream"], ["--seed", 1], ["--temperature", 1], ["--reasoning-disabled"],
                        ["--system-prompt", "s"], ["--prefill-messages-file", "prefill.json"])
    ),
    # What says how to work, and nothing to an endpoint.
    same(["--samples", 2, "--concurrency", 1, "--retries", 0, "--rpm", 1000, "--tpm", 10**9]),
]  # fmt: skip


@pytest.fixture(scope="module")
def endpoint():
    """An endpoint that keeps what it received."""
    with running_endpoint(keep_bodies=True) as running:
        yield running


@pytest.fixture
def ask(endpoint, tmp_path, monkeypatch):
    """Runs one prompt with options; what was said, and what the endpoint received for it."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, KEY)
    (tmp_path / "prefill.json").write_text(json.dumps(PREFILL))
    dataset = write_prompts(tmp_path / "d.jsonl", ["p"])

    def one(*options):
        before = len(endpoint.bodies())
        said = evrun(
            "run", dataset, "--run-name", f"r{next(NAMES)}", "--base-url", endpoint.base_url, "--model", "m",
            "--toolsets", "none", "--keep-all", "--quiet", *options, cwd=tmp_path,
        )  # fmt: skip
        return said, endpoint.bodies()[before:]

    return one


def in_openai(fields: dict[str, Any]) -> dict[str, Any]:
    """The body that a row expects there."""
    body = {"model": "m", "messages": [USER], **fields}
    system = body.pop("system", None)
    if system is not None and system != "x":
        body["messages"] = [{"role": "system", "content": system}, *body["messages"]]
    return {**body, "system": system} if system == "x" else body


def in_anthropic(fields: dict[str, Any]) -> dict[str, Any]:
    """The same in the other dialect."""
    body = {"model": "m", "messages": [USER_BLOCKS], "max_tokens": 9, **fields}
    return {**body, "system": text(body["system"])} if "system" in body else body


def without_tools(body: dict[str, Any]) -> dict[str, Any]:
    """A body without its tool definitions, which another test looks at."""
    return {name: value for name, value in body.items() if name != "tools"}


def check(asked: Any, expected: dict[str, Any] | No) -> None:
    """One row in one dialect."""
    said, received = asked
    words = expected if isinstance(expected, No) else expected.get("refused")
    if words is not None:
        assert (said.code, received) == (2, [])
        assert words in said.err
        return
    assert said.code == 0, said
    for one in received:
        assert without_tools(one["body"]) == expected
    assert received


@pytest.mark.parametrize("row", TABLE, ids=lambda row: " ".join(map(str, row.options)) or "nothing")
def test_an_option_is_on_the_wire_or_refused(ask, row):
    """Exactly these fields and no others, in each dialect; else exit 2, and the endpoint hears nothing."""
    plain = isinstance(row.openai, No) or "refused" in row.openai
    check(ask(*row.options), row.openai if plain else in_openai(row.openai))
    plain = isinstance(row.anthropic, No) or "refused" in row.anthropic
    options = ("--api", "anthropic", "--max-tokens", 9, *row.options)
    check(ask(*options), row.anthropic if plain else in_anthropic(row.anthropic))


def test_keys_and_headers_are_on_the_wire_and_nowhere_else(ask, tmp_path, monkeypatch):
    """A key in the header of its dialect, headers as they were given or as the environment has them."""
    monkeypatch.setenv("GATEWAY_PASS", "gateway-0123456789")
    given = ("--header", "X-Title=my run", "--header", "X-Gateway-Token=$GATEWAY_PASS")
    _, [plain] = ask(*given)
    assert plain["headers"]["authorization"] == f"Bearer {KEY}"
    _, [other] = ask("--api", "anthropic", "--max-tokens", 9, *given)
    assert other["headers"]["x-api-key"] == KEY
    assert other["headers"]["anthropic-version"] == "2023-06-01"
    assert "authorization" not in other["headers"]
    for sent in (plain, other):
        assert sent["headers"]["x-title"] == "my run"
        assert sent["headers"]["x-gateway-token"] == "gateway-0123456789"
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"$GATEWAY_PASS" in written
    assert b"gateway-0123456789" not in written
    assert KEY.encode() not in written


def test_a_header_may_be_the_key(ask, monkeypatch):
    """For gateways that want it elsewhere; two keys in one header are refused."""
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.setenv("GATEWAY_PASS", "gateway-0123456789")
    said, [sent] = ask("--header", "Authorization=Bearer $GATEWAY_PASS")
    assert (said.code, sent["headers"]["authorization"]) == (0, "Bearer gateway-0123456789")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    said, received = ask("--header", "Authorization=Bearer $GATEWAY_PASS")
    assert (said.code, received) == (2, [])
    assert "gateway-0123456789" not in said.err


def test_tools_are_told_in_the_words_of_the_dialect(ask):
    """The same definitions: as functions with parameters, or with an input schema."""
    _, [plain] = ask(*TOOLS)
    _, [other] = ask(*TOOLS, "--api", "anthropic", "--max-tokens", 9)
    functions = [tool["function"] for tool in plain["body"]["tools"]]
    assert [tool["name"] for tool in functions] == ["terminal"]
    told = [{**tool, "input_schema": tool["parameters"]} for tool in functions]
    for tool in told:
        del tool["parameters"]
    assert other["body"]["tools"] == told


def test_each_sample_has_a_seed_of_its_own(ask):
    """The run's own for the first."""
    _, received = ask("--seed", 5, "--samples", 3)
    assert sorted(one["body"]["seed"] for one in received) == [5, 6, 7]


def test_an_endpoint_is_looked_for_in_the_variables_of_its_dialect(ask, endpoint, monkeypatch):
    """No hidden default; an address as other programs have it gets its version."""
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    dialect = ("--api", "anthropic", "--max-tokens", 9)
    said, received = ask(*dialect, "--base-url", "")
    assert (said.code, received) == (2, [])
    assert "ANTHROPIC_BASE_URL" in said.err
    monkeypatch.setenv("ANTHROPIC_BASE_URL", endpoint.root_url)
    said, [sent] = ask(*dialect, "--base-url", "")
    assert (said.code, sent["path"]) == (0, "/v1/messages")


def test_without_a_bound_of_its_answers_anthropics_dialect_is_refused(ask):
    """Its requests need one, and evrun makes up none."""
    said, received = ask("--api", "anthropic")
    assert (said.code, received) == (2, [])
    assert "--max-tokens" in said.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--api", "anthropic"], "--api anthropic: the embedded model speaks openai"),
        (["--header", "a=b"], "--header: the embedded model"),
        (["--provider-sort", "price"], "--provider-sort: the embedded model routes"),
        (["--reasoning-effort", "high"], "the embedded model cannot reason"),
        ([*TOOLS, "--tool-choice", "terminal"], "cannot be made to call a certain tool"),
    ],
)
def test_the_embedded_model_is_not_asked_for_what_it_does_not_know(ask, options, words):
    """It would take no notice."""
    said, received = ask("--model", "local", *options)
    assert (said.code, received) == (2, [])
    assert words in said.err
