"""The built-in agent `chat`: ADAPTER.md as system prompt, the task as question, the run's tools."""

import json
from pathlib import Path
from typing import Any

from projections import fill_template

from .agent_context import AgentContext
from .authoring import RunOutput

ADAPTER = "ADAPTER.md"
ASKING = ("prompt", "question", "input", "instruction", "problem", "text")
"""Where a task's question stands: the first of these that it has, if `agent.params.template` is not given."""


async def chat(
    task: dict[str, Any], adapter: Path | None, ctx: AgentContext, params: dict[str, Any]
) -> RunOutput:
    """Ask the model, run the tools that it calls, until it answers without calling one."""
    messages: list[dict[str, Any]] = []
    if adapter is not None and (adapter / ADAPTER).is_file():
        messages.append({"role": "system", "content": (adapter / ADAPTER).read_text("utf-8")})
    messages.append({"role": "user", "content": question(task, params.get("template"))})
    while True:
        answer = await ctx.complete(messages, tools=ctx.tools or None)
        messages.append(answer.message)
        if not answer.tool_calls:
            return RunOutput(answer.text, messages=messages)
        for call in answer.tool_calls:
            result = await _tool(ctx, call.name, call.arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)})


def question(task: dict[str, Any], template: Any) -> str:
    """What is asked.

    Raises:
        ValueError: the task has no field that asks, or not one that the template names.
    """
    if template is not None:
        return fill_template(str(template), task, str(task.get("prompt", "")))
    for field in ASKING:
        if isinstance(task.get(field), str) and task[field].strip():
            return str(task[field])
    raise ValueError(
        f"the task asks nothing: it has none of {', '.join(ASKING)}; give agent.params.template, "
        'for example "{title}: {body}"'
    )


async def _tool(ctx: AgentContext, name: str, arguments: str) -> Any:
    try:
        given = json.loads(arguments or "{}")
    except ValueError as error:
        return {"error": f"the arguments are no JSON: {error}"}
    if not isinstance(given, dict):
        return {"error": "the arguments are no JSON object"}
    return await ctx.tool(name, **given)
