"""What a program is told by its environment: where to ask, with which token, for which model. Pure."""

from typing import Protocol

_LOOPBACK = "127.0.0.1,localhost"


class _Addressed(Protocol):
    base_url: str


def environment_for(endpoint: _Addressed, token: str, model: str) -> dict[str, str]:
    """The variables that common programs read, to be added to a program's environment.

    Those of the official clients come first; the others are names that single programs have for the same
    three things. Programs that go through litellm want the name of a dialect before that of the model.
    """
    url = endpoint.base_url
    through_litellm = f"openai/{model}"
    return {
        "OPENAI_BASE_URL": url,
        "OPENAI_API_BASE": url,  # clients from before version 1, and litellm
        "OPENAI_API_KEY": token,
        "OPENAI_MODEL": model,
        "OPENAI_MODEL_NAME": model,
        "OPENAI_DEFAULT_MODEL": model,  # openai-agents
        "CORECODER_MODEL": model,
        "AIDER_OPENAI_API_BASE": url,
        "AIDER_OPENAI_API_KEY": token,
        "AIDER_MODEL": through_litellm,
        "MSWEA_MODEL_NAME": through_litellm,  # mini-swe-agent
        "MSWEA_CONFIGURED": "true",  # without it, it asks on its first start
        "MSWEA_COST_TRACKING": "ignore_errors",  # without it, a model with no public price ends its work
        "NO_PROXY": _LOOPBACK,
        "no_proxy": _LOOPBACK,
    }
