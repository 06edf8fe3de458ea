"""Whether a tool call worked, judged by what it gave back, as the Hermes statistics do."""

from .jsontext import loads_lenient


def tool_succeeded(content: str) -> bool:
    """True unless the content says otherwise; the first match decides.

    A JSON object with a non-null `error`, or whose `content` is such an object, failed; so did one whose
    `success` is exactly false. Any other JSON succeeded. Text failed if it is empty or begins with "error:"
    in any case. A non-zero exit code is not a failure.
    """
    start = content.lstrip()
    if not start.startswith("{"):
        # Neither other JSON nor text can match any rule but these two.
        return bool(content) and start[:6].lower() != "error:"
    try:
        value = loads_lenient(content)
    except ValueError:
        return True
    inner = value.get("content")
    if value.get("error") is not None or (isinstance(inner, dict) and inner.get("error") is not None):
        return False
    return value.get("success") is not False
