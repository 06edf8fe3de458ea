"""DBOS on SQLite in the money table: a queued workflow for each prompt, its call a step.

Run by DBOS's own environment; `run` again recovers at launch what is pending.

python benchmarks/_money_dbos.py run BASE_URL DATASET IN_FLIGHT
python benchmarks/_money_dbos.py report
"""

import json
import logging
import sys
from pathlib import Path
from typing import Any

import httpx
from dbos import DBOS, DBOSConfig, SetWorkflowID

http = httpx.Client(timeout=60, limits=httpx.Limits(max_connections=None))


@DBOS.step()
def call(base_url: str, prompt: str) -> dict[str, Any]:
    """One model call; its output is checkpointed."""
    body = {"model": "test-model", "messages": [{"role": "user", "content": prompt}]}
    response = http.post(f"{base_url}/chat/completions", json=body)
    response.raise_for_status()
    answer: dict[str, Any] = response.json()
    return {"text": answer["choices"][0]["message"]["content"], "usage": answer["usage"]}


@DBOS.workflow()
def answer_prompt(base_url: str, prompt: str) -> dict[str, Any]:
    """One row: the prompt with its answer."""
    return {"prompt": prompt, **call(base_url, prompt)}


def launch() -> None:
    """The system database is a file in the working directory."""
    config: DBOSConfig = {
        "name": "money",
        "system_database_url": "sqlite:///money.sqlite",
        "application_version": "1",
        "log_level": "WARNING",
    }
    DBOS(config=config)
    DBOS.launch()


def run(base_url: str, dataset: str, in_flight: int) -> None:
    """Enqueue every prompt under its own id (those there are left as they are) and wait for all."""
    launch()
    queue = DBOS.register_queue("prompts", worker_concurrency=in_flight, polling_interval_sec=0.1)
    handles = []
    for n, line in enumerate(Path(dataset).read_text("utf-8").splitlines()):
        with SetWorkflowID(f"prompt-{n}"):
            handles.append(queue.enqueue(answer_prompt, base_url, json.loads(line)["prompt"]))
    for handle in handles:
        handle.get_result()
    DBOS.destroy()


def report() -> None:
    """Print the account: rows are workflows with a result; named are those that were begun more than once."""
    launch()
    found = [status for status in DBOS.list_workflows() if status.workflow_id.startswith("prompt-")]
    done = [status for status in found if status.status == "SUCCESS"]
    again = [status for status in found if (status.recovery_attempts or 0) > 1]
    tokens = sum(status.output["usage"]["total_tokens"] for status in done)
    account = {
        "rows": len({status.output["prompt"] for status in done}),
        "tokens": tokens,  # it has no total of its own: what a user would add up
        "row_tokens": tokens,
        "named": sorted(status.input["args"][1] for status in again),
    }
    DBOS.destroy()
    print(json.dumps(account))


if __name__ == "__main__":
    logging.disable(logging.INFO)
    if sys.argv[1] == "run":
        run(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        report()
