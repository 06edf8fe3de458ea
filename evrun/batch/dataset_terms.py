"""What rows have to fit: the settings that decide whether a row can be asked."""

from typing import NamedTuple

from projections import template_fields

from .settings import Settings


class Terms(NamedTuple):
    """The part of the settings that a dataset is read by.

    `model` is empty while none is named; `tools` are the options that say which tools are offered.
    """

    template: str = "{prompt}"
    model: str = ""
    api: str = "openai"
    tools: tuple[str, ...] = ()
    service_tier: str | None = None
    agent: str = "chat"

    @property
    def plain(self) -> bool:
        """Whether prompts are asked as they stand."""
        return self.template == "{prompt}"

    @property
    def fields(self) -> frozenset[str]:
        """The fields of a row that its prompt is made of."""
        return template_fields(self.template)


def terms_of(settings: Settings) -> Terms:
    """The terms of a run."""
    tier = (settings.extra_body or {}).get("service_tier")
    offering = {
        "--toolsets": settings.toolsets,
        "--tools": settings.tools,
        "--mcp-config": settings.mcp_config,
        "--tool-choice": settings.tool_choice,
    }
    return Terms(
        settings.template,
        settings.model,
        settings.api,
        tuple(option for option, value in offering.items() if value),
        tier if isinstance(tier, str) else None,
        settings.agent,
    )
