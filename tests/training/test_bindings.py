"""Which model each part of a training run asks, where, with which key, and at what price."""

import pytest

from evrun.batch.options import api_key
from evrun.errors import UsageFault
from evrun.training.bindings import agent_binding, bindings_of, judge_binding, learner_binding
from tests.training.configured import config_in

MINE = (
    "backends={mine: {base_url: 'http://127.0.0.1:9/v1', models: {short: long/name}, "
    "prices: {short: {input: 0.1, cached_input: 0.01, output: 2}}, extra_body: {top_k: 3}}, "
    "far: {from: mine, base_url: 'https://far.example/v1', api_key_env: FAR_KEY}}"
)


def price(binding, model):
    """What a million tokens cost, in USD, in and out."""
    found = binding.price_of(model)
    return None if found is None else (float(found.input.base) / 1000, float(found.output.base) / 1000)


def test_without_a_model_nobody_is_bound(tmp_path):
    """A run whose parts ask no model needs none."""
    assert bindings_of(config_in(tmp_path), {}) == (None, None, None)
    with pytest.raises(UsageFault, match="chat needs a model"):
        agent_binding(config_in(tmp_path, "agent=chat"), {})
    with pytest.raises(UsageFault, match="llm needs a model"):
        judge_binding(config_in(tmp_path, "judge=llm"), {})
    with pytest.raises(UsageFault, match="reflect needs a model"):
        learner_binding(config_in(tmp_path, "evolver=reflect"), {})


def test_a_part_asks_its_own_model_else_the_runs(tmp_path):
    """`agent.params.model`, `judge.params.model`, `evolver.params.model`, `llm`, and `model` for the rest."""
    config = config_in(
        tmp_path, MINE, "model=mine/a", "agent=chat", "judge=llm", "evolver=reflect",
        "judge.params.model=mine/j", "llm=mine/l",
    )  # fmt: skip
    assert [one.settings.model for one in bindings_of(config, {})] == ["a", "j", "l"]
    more = config_in(
        tmp_path, MINE, "model=mine/a", "evolver=reflect", "evolver.params.model=mine/e", "llm=mine/l",
        "agent.params.model={own: thing}",
    )  # fmt: skip
    assert [one and one.settings.model for one in bindings_of(more, {})] == ["a", None, "e"]
    own = config_in(tmp_path, MINE, "evolver.params.model=mine/e", "llm=mine/l", "agent.params.model=mine/x")
    assert [one and one.settings.model for one in bindings_of(own, {})] == ["x", None, "l"]


def test_a_backend_gives_address_key_prices_and_fields(tmp_path):
    """Names stand for others, one backend is made from another, and prices keep their digits."""
    config = config_in(tmp_path, MINE, "agent=chat", "model=far/short", "agent.params.extra_body={top_p: 1}")
    bound = agent_binding(config, {"FAR_KEY": "k" * 12})
    assert (bound.settings.model, bound.settings.base_url) == ("long/name", "https://far.example/v1")
    assert (bound.settings.api_key_env, bound.settings.api) == ("FAR_KEY", "openai")
    assert bound.settings.extra_body == {"top_k": 3, "top_p": 1}
    assert price(bound, "long/name") == (0.1, 2.0)
    assert bound.settings.prices == ["long/name=0.1,2,0.01"]


def test_prices_of_the_run_count_more_than_a_backends(tmp_path):
    """By the model's own name, or with its backend."""
    for name in ("long/name", "mine/long/name"):
        config = config_in(tmp_path, MINE, "model=mine/short", f"prices={{{name}: {{input: 3, output: 4}}}}")
        assert price(agent_binding(config, {}), "long/name") == (3.0, 4.0)


def test_a_key_is_needed_where_a_backend_is_not_on_this_machine(tmp_path):
    """Its variable is named; `key_required: false` and loopback need none; a key that is there is used."""
    config = config_in(tmp_path, MINE, "model=far/m")
    with pytest.raises(UsageFault, match=r"backends\.far: no API key: the environment variable FAR_KEY"):
        agent_binding(config, {})
    for name, environment in (
        ("mine", {}),
        ("vllm", {}),
        ("vllm", {"VLLM_BASE_URL": "http://gpu.example/v1"}),
    ):
        bound = agent_binding(config_in(tmp_path, MINE, f"model={name}/m"), environment)
        assert bound.settings.api_key_env == ""
        assert api_key(bound.settings, environment) is None
    free = config_in(tmp_path, MINE, "model=far/m", "backends.far.key_required=false")
    assert agent_binding(free, {}).settings.api_key_env == ""
    assert agent_binding(free, {"FAR_KEY": "abc"}).settings.api_key_env == "FAR_KEY"
    with pytest.raises(UsageFault, match="OPENAI_API_KEY is not set"):
        agent_binding(config_in(tmp_path, "model=openai/gpt-5"), {})


def test_the_environment_moves_a_backend(tmp_path):
    """`<NAME>_BASE_URL` counts more than what is built in, and than the file."""
    moved = {"VLLM_BASE_URL": "http://127.0.0.1:7/v1", "MINE_BASE_URL": "http://127.0.0.1:8/v1"}
    for name, url in (("vllm", moved["VLLM_BASE_URL"]), ("mine", moved["MINE_BASE_URL"])):
        assert agent_binding(config_in(tmp_path, MINE, f"model={name}/m"), moved).settings.base_url == url


def test_a_model_without_a_backend_is_one_of_openai_base_url(tmp_path):
    """As for `evrun run`; without that variable the backends are named."""
    config = config_in(tmp_path, MINE, "model=qwen/qwen3")
    url = "http://127.0.0.1:5/v1"
    bound = agent_binding(config, {"OPENAI_BASE_URL": url})
    assert (bound.settings.model, bound.settings.base_url) == ("qwen/qwen3", url)
    with pytest.raises(UsageFault, match="names no backend") as caught:
        agent_binding(config, {})
    assert "mine" in caught.value.hint
    with pytest.raises(UsageFault) as caught:
        agent_binding(config_in(tmp_path, MINE, "model=min/m"), {})
    assert caught.value.hint == "did you mean mine/m?"


def test_a_model_in_parameters_of_own_code_may_be_nobodys_but_its_own(tmp_path):
    """What names no endpoint is passed on, and the run's model stays that of durable calls."""
    for name in ("gpt-4o", "meta-llama/Llama-3"):
        params = (f"agent.params.model={name}", f"evolver.params.model={name}")
        assert bindings_of(config_in(tmp_path, MINE, *params), {}) == (None, None, None)
        agent, _, learner = bindings_of(config_in(tmp_path, MINE, "model=mine/m", *params), {})
        assert (agent.settings.model, learner.settings.model) == ("m", "m")
        with pytest.raises(UsageFault, match="names no backend"):
            agent_binding(config_in(tmp_path, MINE, "agent=chat", *params[:1]), {})


def test_the_embedded_model_is_free_and_patient(tmp_path):
    """`local` has no address, costs nothing, and may think long."""
    bound = agent_binding(config_in(tmp_path, "model=local", "agent=chat"), {})
    assert (bound.settings.base_url, bound.settings.request_timeout) == (None, 600.0)
    assert price(bound, "local") == (0.0, 0.0)


def test_an_endpoint_may_stand_in_llm_itself(tmp_path):
    """Address, model, variable of the key, price and further fields."""
    llm = (
        "llm={base_url: 'http://127.0.0.1:3/v1', model: m, price: {input: 1, output: 2}, "
        "extra_body: {a: 1}, max_tokens: 9}"
    )
    bound = learner_binding(config_in(tmp_path, llm), {"OPENAI_API_KEY": "not for them"})
    assert (bound.settings.base_url, bound.settings.api_key_env) == ("http://127.0.0.1:3/v1", "")
    assert (bound.settings.extra_body, bound.settings.max_tokens) == ({"a": 1}, 9)
    assert price(bound, "m") == (1.0, 2.0)
    keyed = config_in(tmp_path, "llm={base_url: 'https://x.example/v1', model: m, api_key_env: MY_KEY}")
    with pytest.raises(UsageFault, match="MY_KEY is not set"):
        learner_binding(keyed, {})
    assert learner_binding(keyed, {"MY_KEY": "abc"}).settings.api_key_env == "MY_KEY"


def test_parameters_are_options_of_requests(tmp_path):
    """What a chat may say of its requests; timeouts and concurrency come from the part's own keys."""
    params = "agent.params={max_turns: 3, max_tokens: 50, temperature: 0, seed: 4, reasoning_effort: low}"
    config = config_in(
        tmp_path, MINE, "model=mine/m", "agent=chat", params, "agent.timeout_min=2", "agent.concurrency=7",
        "trainer.call_timeout_min=3",
    )  # fmt: skip
    chat, _, learner = bindings_of(config, {})
    found = chat.settings
    assert (found.max_turns, found.max_tokens, found.temperature, found.seed) == (3, 50, 0.0, 4)
    assert (found.reasoning_effort, found.prompt_timeout, found.concurrency) == ("low", 120.0, 7)
    assert found.toolsets == []
    assert (learner.settings.prompt_timeout, learner.settings.temperature) == (180.0, None)
    own = config_in(tmp_path, MINE, "model=mine/m", "agent.params={max_tokens: many, temperature: warm}")
    assert agent_binding(own, {}).settings.max_tokens is None


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("agent.params.max_tokens=many", "agent.params.max_tokens: expected a whole number"),
        ("agent.params.max_turns=0", "agent.params.max_turns: expected 1 or more"),
        ("agent.params.temperature=-1", "agent.params.temperature"),
        ("agent.params.reasoning_effort=enormous", "agent.params.reasoning_effort: expected one of none"),
        ("agent.params.model=5", "agent.params.model: expected BACKEND/MODEL"),
        ("agent.params.tool_choice=required", "agent.params.tool_choice"),
        ("backends.mine.apis=[messages]", "backends.mine.apis: .* has no chat"),
        ("backends.mine.base_url=ftp://x", "backends.mine.base_url"),
        ("backends.mine.base_url=http://me:secret@h.example/v1", "backends.mine.base_url holds a user name"),
        (
            "backends.mine.base_url=http://127.0.0.1/v1?key=abc",
            "backends.mine.base_url: refused, .* a secret",
        ),
        ("backends.mine.base_url=", "backends.mine.base_url is missing"),
        ("backends.mine.from=far", "leads back to itself: mine -> far -> mine"),
        ("backends.mine.from=opanai", "there is no backend 'opanai'"),
        ("backends.mine.base_ulr=x", "unknown key backends.mine.base_ulr"),
        ("backends.mine.api_key=x", "backends.mine.api_key: refused, because this looks like a secret"),
        ("backends.mine.prices={m: free}", "prices"),
        ("backends.mine.models={a: 1}", "backends.mine.models.a"),
        ("backends.local={base_url: x}", "backends.local"),
        ("llm={base_url: 'http://127.0.0.1:1/v1'}", "llm.model is missing"),
        ("llm={model: mine/m, price: {input: 1, output: 2}}", "llm.price goes with llm.base_url"),
        ("llm={modl: m}", "unknown key llm.modl"),
    ],
)
def test_what_a_binding_cannot_be_is_refused_by_its_key(tmp_path, override, said):
    """Wrong parameters, backends that cannot be asked, keys in the file: in the words of the config file."""
    with pytest.raises(UsageFault, match=said) as caught:
        bindings_of(config_in(tmp_path, MINE, "agent=chat", "model=mine/m", override), {})
    assert "--" not in f"{caught.value}{caught.value.hint}"


def test_parameters_of_built_in_parts_are_known_by_name(tmp_path):
    """A misspelt one is refused with the nearest, another type with what is expected; files are found."""
    (tmp_path / "tool.py").write_text("")
    for overrides, said in (
        (("agent=chat", "agent.params.temprature=1"), "unknown key agent.params.temprature"),
        (("judge=numeric", "judge.params.tollerance=1"), "unknown key judge.params.tollerance"),
        (("judge=llm", "judge.params.rubrik=x"), "unknown key judge.params.rubrik"),
        (("evolver=reflect", "evolver.params.exmples=1"), "unknown key evolver.params.exmples"),
        (("evolver=gepa", "data.val=v.txt", "evolver.params.seed=x"), "evolver.params.seed: Expected `int`"),
        (("agent=chat", "agent.params.tools=[1]"), "agent.params.tools: expected a list of texts"),
    ):
        with pytest.raises(UsageFault, match=said):
            bindings_of(config_in(tmp_path, MINE, "model=mine/m", *overrides), {})
    config = config_in(
        tmp_path, MINE, "model=mine/m", "agent=chat", "agent.params.tools=[tool.py]", "judge=llm",
        "judge.params.rubric_file=r.md",
    )  # fmt: skip
    assert agent_binding(config, {}).settings.tools == [str(tmp_path / "tool.py")]
    assert agent_binding(config, {}).settings.toolsets == ["tool"]
    assert config.judge.params["rubric_file"] == str(tmp_path / "r.md")


def test_a_backend_that_the_file_does_not_have_is_taken_from_the_persons_own(tmp_path, monkeypatch):
    """The file that HA_BACKENDS names, else the one in the home directory; only what is asked for."""
    monkeypatch.setenv("HOME", str(tmp_path))
    own = tmp_path / ".config/hermit/backends.yaml"
    own.parent.mkdir(parents=True)
    own.write_text(
        "lab: {from: base, extra_body: {a: 1}}\nbase: {base_url: 'http://127.0.0.1:4/v1'}\nx: {}\n"
    )
    config = config_in(tmp_path, "model=lab/m")
    assert sorted(config.backends) == ["base", "lab"]
    assert agent_binding(config, {}).settings.base_url == "http://127.0.0.1:4/v1"
    mine = config_in(tmp_path, "model=lab/m", "backends={lab: {base_url: 'http://127.0.0.1:5/v1'}}")
    assert agent_binding(mine, {}).settings.base_url == "http://127.0.0.1:5/v1"
    monkeypatch.setenv("HA_BACKENDS", str(tmp_path / "nowhere.yaml"))
    assert config_in(tmp_path).backends == {}
    with pytest.raises(UsageFault, match=r"HA_BACKENDS=.*nowhere\.yaml: No such file"):
        config_in(tmp_path, "model=lab/m")
