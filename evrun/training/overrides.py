"""What is typed behind a config file: ``key.sub=value``, and the short spellings of sections."""

from typing import Any

from ..errors import UsageFault
from .yaml_text import Parsed, read_yaml

_FORM = "expected key.sub=value, for example trainer.epochs=3 or 'trainer.budget={usd: 2}'"
_PIPELINE = {"run": "name"}
_PRICE_NAMES = ("input", "output", "cached_input")


class Tree:
    """A config file's values by section, and the same as they were written."""

    def __init__(self, parsed: Parsed, where: str) -> None:
        if parsed.value is not None and not isinstance(parsed.value, dict):
            raise UsageFault(f"{where}: expected keys by name, found {str(parsed.value)[:60]!r}")
        self.values: dict[Any, Any] = parsed.value or {}
        self.words: dict[Any, Any] = parsed.words if isinstance(parsed.words, dict) else {}
        self._expand(where)

    def override(self, text: str) -> None:
        """Put what was typed in the place of what is there.

        Raises:
            UsageFault: another form, no YAML, or a key below something that is no map.
        """
        key, equals, written = text.partition("=")
        names = key.strip().split(".")
        if not equals or not all(names) or key.startswith("-"):
            raise UsageFault(f"{text!r}: {_FORM}", "quote what the shell would take apart")
        parsed = read_yaml(written, text)
        if names[0] == "pipeline":
            names = ["agent", *(_PIPELINE.get(name, name) for name in names[1:])]
        values, words = self.values, self.words
        for place, name in enumerate(names[:-1]):
            values, words = _below(values, name), _below(words, name)
            if not isinstance(values, dict):
                above = ".".join(names[: place + 1])
                raise UsageFault(f"{text!r}: {above} is {values!r}, which has no keys", _FORM)
        values[names[-1]] = parsed.value
        if isinstance(words, dict):
            words[names[-1]] = parsed.words
        self._expand(text)

    def _expand(self, where: str) -> None:
        """Write out the short spellings."""
        for tree in (self.values, self.words):
            _expand_pipeline(tree, where)
            for section in ("agent", "evolver"):
                if isinstance(tree.get(section), str):
                    tree[section] = {"name": tree[section]}
            if isinstance(tree.get("judge"), str):
                tree["judge"] = _judge(tree["judge"])
        if isinstance(self.values.get("prices"), str):
            self.values["prices"] = [self.values["prices"]]
        if isinstance(self.values.get("prices"), dict):
            prices = self.words.get("prices", {})
            self.values["prices"] = self.words["prices"] = [
                price_text(str(model), price, where) for model, price in prices.items()
            ]


def price_text(model: str, price: Any, where: str) -> str:
    """A price as ``MODEL=INPUT,OUTPUT[,CACHED]``, of ``{input, output, cached_input}``, a list or a text.

    Raises:
        UsageFault: it has another form.
    """
    if isinstance(price, dict) and {"input", "output"} <= set(price) <= set(_PRICE_NAMES):
        price = [price[name] for name in _PRICE_NAMES if price.get(name) not in (None, "", "null", "~")]
    if isinstance(price, list) and all(not isinstance(part, dict | list) for part in price):
        price = ",".join(str(part) for part in price)
    if not isinstance(price, str):
        raise UsageFault(
            f"{where}: the price of {model} is {price!r}",
            "expected USD per million tokens, for example {input: 0.15, output: 0.6}",
        )
    return f"{model}={price}"


def _below(tree: Any, name: str) -> Any:
    if not isinstance(tree, dict):
        return tree
    if tree.get(name) in (None, ""):
        tree[name] = {}
    return tree[name]


def _expand_pipeline(tree: dict[Any, Any], where: str) -> None:
    """`pipeline` is an older spelling of `agent`."""
    pipeline = tree.pop("pipeline", None)
    if not isinstance(pipeline, dict):
        if pipeline not in (None, "", "null", "~"):
            raise UsageFault(f"{where}: pipeline: expected a map with run, found {pipeline!r}")
        return
    agent = tree.get("agent")
    agent = {"name": agent} if isinstance(agent, str) and agent else (agent or {})
    for name, value in pipeline.items():
        spelled = _PIPELINE.get(name, name)
        if value in (None, "", "null", "~"):
            continue
        if isinstance(agent, dict) and spelled in agent:
            raise UsageFault(
                f"{where}: pipeline.{name} and agent.{spelled} say the same thing twice", "keep agent"
            )
        agent[spelled] = value
    tree["agent"] = agent


def _judge(text: str) -> dict[str, str]:
    path, colon, name = text.rpartition(":")
    if text.endswith(".py"):
        return {"path": text}
    return {"path": path, "name": name} if colon and path.endswith(".py") else {"name": text}
