"""The bound of a request against real tokenizers: Qwen's, the embedded model's, and the worst of all."""

import json
import unicodedata
import urllib.request

import pytest
from dashscope.tokenizers import get_tokenizer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evrun.batch.request import request_body
from evrun.batch.settings import Settings, settings_record
from evrun.bounds import request_bound
from evrun.effects.local_model import LocalModel
from evrun.tools import toolset_names
from projections.answer import ToolCall
from projections.asking import row_messages
from projections.messages import Message, request_messages
from tests.evrun.boxes import definitions

QWEN = get_tokenizer("qwen-7b-chat")
TOOLS = [tool for toolset in definitions(toolset_names()).values() for tool in toolset]

NASTY = {
    "plain": "How many eggs does the hen lay in a week?",
    "chinese": "漢字とかなの混じった文章。" * 40,
    "families": "👩‍👩‍👧‍👦🏳️‍🌈" * 60,
    "control": "\x00\x01\x02\x1b[31m\x7f\x85" * 80,
    "spaces": " \t\r\n" * 200 + "\n" * 300,
    "one letter": "a" * 3000,
    "digits": "0123456789" * 200,
    "base64": "dGhpcyBpcyBub3QgdGV4dA==" * 60,
    "markers": "<|im_start|>system\n<|im_end|><|endoftext|>[INST]</s>" * 30,
    "quotes": '"\\"\\\\"' * 200,
    "json": json.dumps({"a": [{"b": None, "c": [1.5, True]}] * 30}),
    "musical": "\U0001d160" * 400,  # NFC makes twelve bytes of four
    "hebrew": "\ufb2c" * 400,  # NFC makes six bytes of three
    "ligature": "\ufdfa" * 100,  # NFKC makes 33 bytes of three
    "both ways": "\U0001d160" * 200 + "\uff21" * 900,  # NFC makes it longer, NFKC shorter
    "accents": "e\u0301\u0323\u0308" * 200,
    "private": "\ue000\U000f0000\ufffd" * 100,
    "indic": "क़ख़ग़ज़" * 60,
}

letters = st.one_of(
    st.sampled_from(sorted(set("".join(NASTY.values())))),
    st.characters(exclude_categories=["Cs"]),
)
texts = st.builds(lambda text, times: text * times, st.text(letters, max_size=30), st.integers(1, 20))
numbers = st.sampled_from(["1", "0", "1e15", "-1E+12", "2.5e-7", "123456789012345678901234567890"])
arguments = st.one_of(
    st.lists(numbers, max_size=60).map(lambda found: '{"a":[' + ",".join(found) + "]}"),
    st.dictionaries(texts, texts, max_size=3).map(lambda found: json.dumps(found, ensure_ascii=False)),
    texts,
)
calls = st.lists(
    st.builds(ToolCall, st.just("c"), st.sampled_from(["terminal", "look"]), arguments), max_size=4
)
messages = st.lists(
    st.one_of(
        st.builds(Message, st.sampled_from(["user", "assistant"]), texts),
        st.builds(lambda text, found: Message("assistant", text, None, found), texts, calls),
        st.builds(lambda text: Message("tool", text, tool_call_id="c"), texts),
    ),
    max_size=6,
)


def body_of(prompt, further=(), tools=(), **values):
    """The very bytes that go on the wire for a conversation."""
    chosen = Settings(dataset="d", model="m", base_url="http://127.0.0.1:9/v1", max_tokens=8, **values)
    record = settings_record(chosen)
    conversation = [*row_messages({"prompt": prompt}, record), *further]
    return request_body(chosen, request_messages(conversation, record), list(tools), 7)


def prompt_of(body, indent):
    """What a server makes of a request: roles between markers; tools and arguments are printed again."""
    request = json.loads(body)
    parts = []
    if request.get("tools"):
        shown = "\n".join(json.dumps(tool, indent=indent, ensure_ascii=False) for tool in request["tools"])
        parts.append(
            f"<|im_start|>system\n{'Call the functions below, as JSON within tags. ' * 12}{shown}<|im_end|>\n"
        )
    for message in request["messages"]:
        said = [message.get("content") or "", *map(_call_of, message.get("tool_calls", ()))]
        parts.append(f"<|im_start|>{message['role']}\n{''.join(said)}<|im_end|>\n")
    return "".join(parts) + "<|im_start|>assistant\n"


def _call_of(call):
    function = call["function"]
    try:
        shown = json.loads(function["arguments"])
    except ValueError:
        shown = function["arguments"]
    printed = json.dumps({"name": function["name"], "arguments": shown}, ensure_ascii=False)
    return f"\n<tool_call>\n{printed}\n</tool_call>"


def worst_counts(body):
    """Tokens of a tokenizer that has no token but the 256 bytes: as it is, and after each normalisation."""
    text = prompt_of(body, 4)
    forms = [text, unicodedata.normalize("NFC", text), unicodedata.normalize("NFKC", text)]
    return [len(form.encode("utf-8", "surrogatepass")) for form in forms]


def qwen_count(body):
    """Tokens of Qwen's real vocabulary, which normalises (NFC) first."""
    return len(QWEN.encode(prompt_of(body, None)))


@pytest.mark.parametrize("name", NASTY)
def test_no_nasty_text_has_more_tokens_than_its_bound(name):
    """As a prompt, a system prompt, in a prefill, in tools' arguments and results; with and without tools."""
    text = NASTY[name]
    call = ToolCall("c", "terminal", json.dumps({"command": text}, ensure_ascii=False))
    further = [Message("assistant", text, text, [call]), Message("tool", text, tool_call_id="c")]
    prefill = [{"role": "user", "content": text}, {"role": "assistant", "content": text}]
    for body in (
        body_of(text),
        body_of(text, system_prompt=text, ephemeral_system_prompt=text, prefill=prefill),
        body_of(text, further, TOOLS),
    ):
        bound = request_bound(body, None).input_tokens
        assert max(*worst_counts(body), qwen_count(body)) <= bound


@pytest.mark.parametrize("number", ["1", "1e15", "-2E+9", "{}"])
def test_arguments_that_grow_when_they_are_printed_again_stay_within_the_bound(number):
    """Compact as the model wrote them; servers print spaces between, and 1e15 as 1000000000000000.0."""
    call = ToolCall("c", "t", '{"a":[' + ",".join([number] * 3000) + "]}")
    body = body_of("x", [Message("assistant", "", None, [call]), Message("tool", "y", tool_call_id="c")])
    assert max(*worst_counts(body), qwen_count(body)) <= request_bound(body, None).input_tokens


@given(texts, messages, st.booleans(), st.booleans())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_conversation_has_more_tokens_than_its_bound(prompt, further, with_tools, system):
    """Whatever is said, called and given back, as it is really sent."""
    values = {"system_prompt": prompt} if system else {}
    body = body_of(prompt or "x", further, TOOLS if with_tools else (), **values)
    assert max(*worst_counts(body), qwen_count(body)) <= request_bound(body, None).input_tokens


def test_a_bound_of_bytes_alone_would_not_do():
    """These were found with real tokenizers; each has more tokens than bytes, or more than it was sent as."""
    assert len(QWEN.encode(NASTY["musical"])) > len(NASTY["musical"].encode())
    assert len(QWEN.encode(NASTY["hebrew"])) > len(NASTY["hebrew"].encode())
    compact = '{"a":[' + ",".join(["1"] * 2000) + "]}"
    assert len(QWEN.encode(json.dumps(json.loads(compact)))) > len(compact)


@pytest.mark.parametrize("name", ["musical", "ligature", "both ways"])
def test_escapes_in_a_body_are_looked_through(name):
    r"""``\ufdfa`` is six bytes of ASCII, and 33 bytes of text for a tokenizer that normalises."""
    body = json.dumps({"messages": [{"role": "user", "content": NASTY[name]}]}).encode()
    assert body.isascii()
    assert max(worst_counts(body)) <= request_bound(body, None).input_tokens


def test_a_backslash_before_an_escape_is_text():
    r"""``\\ufdfa`` in JSON is a backslash and five letters; nothing grows."""
    body = json.dumps({"messages": [{"role": "user", "content": "\\ufdfa" * 50}]}).encode()
    assert request_bound(body, None).input_tokens == len(body) + 512 + 16


@pytest.fixture(name="model", scope="module")
def _model():
    """The embedded model, for its tokenizer, its template, and what it says that it used."""
    with LocalModel(parallel=1, context_tokens=4096) as model:
        yield model


def post(model, path, value):
    """Ask the model's server."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    root = model.base_url.removesuffix("/v1")
    request = urllib.request.Request(root + path, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=100) as answer:
        return json.load(answer)


@pytest.mark.parametrize("tools", [(), TOOLS], ids=["no tools", "tools"])
def test_the_embedded_models_own_template_and_vocabulary_stay_within_the_bound(model, tools):
    """Every nasty text at once costs less than its bound says."""
    for text in NASTY.values():
        body = body_of(text, tools=tools, system_prompt="Be brief.")
        prompt = post(model, "/apply-template", body)["prompt"]
        count = len(post(model, "/tokenize", {"content": prompt, "add_special": True})["tokens"])
        assert count <= request_bound(body, None).input_tokens


@pytest.mark.parametrize("name", ["plain", "musical"])
def test_what_the_embedded_model_says_it_used_is_within_the_bound(model, name):
    """Input and output, as reported with a real answer to the very body that is sent."""
    body = body_of(NASTY[name][:40])
    bound = request_bound(body, None)
    usage = post(model, "/v1/chat/completions", body)["usage"]
    assert 0 < usage["prompt_tokens"] <= bound.input_tokens
    assert 0 < usage["completion_tokens"] <= bound.output_tokens == 8
