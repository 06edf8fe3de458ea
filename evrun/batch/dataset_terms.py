"""What rows have to fit: the settings that decide whether a row can be asked."""

from typing import NamedTuple

from projections import template_fields

from .settings import Settings


class Terms(NamedTuple):
    """The part of the settings that a dataset is read by. `model` is empty while none is named."""

    template: str = "{prompt}"
    model: str = ""
    api: str = "openai"
    toolsets: tuple[str, ...] = ()
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
    return Terms(
        settings.template,
        settings.model,
        settings.api,
        tuple(settings.toolsets or ()),
        tier if isinstance(tier, str) else None,
        settings.agent,
    )
