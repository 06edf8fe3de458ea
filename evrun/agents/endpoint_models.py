"""The list of models, as OpenAI's endpoints give it. Pure."""

import msgspec

from .endpoint_asked import Reply
from .endpoint_errors import error_reply


def model_reply(models: list[str], name: str) -> Reply:
    """All models, or the one that was named."""
    if not name:
        listed = {"object": "list", "data": [_entry(model) for model in models]}
        return Reply(200, msgspec.json.encode(listed))
    if name in models:
        return Reply(200, msgspec.json.encode(_entry(name)))
    message = f"There is no model {name[:100]!r} here. There is: {', '.join(models)}."
    return error_reply(404, message, "model_not_found")


def _entry(model: str) -> dict[str, object]:
    return {"id": model, "object": "model", "created": 0, "owned_by": "evrun"}
