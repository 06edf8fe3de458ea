"""curator in the money table: one curator.LLM over the dataset. Run by curator's own environment.

python benchmarks/_money_curator.py run BASE_URL DATASET IN_FLIGHT   the same again goes on from its cache
python benchmarks/_money_curator.py report
"""

import json
import sys
from pathlib import Path
from typing import Any

from bespokelabs import curator
from datasets import Dataset

ACCOUNT, CACHE = Path("account.json"), Path("cache")


class Answer(curator.LLM):
    """The prompt as it is, the answer as it is."""

    def prompt(self, row: dict[str, Any]) -> str:
        """What is sent."""
        return str(row["prompt"])

    def parse(self, row: dict[str, Any], response: str) -> dict[str, Any]:
        """One row."""
        return {"prompt": row["prompt"], "text": response}


def run(base_url: str, dataset: str, in_flight: int) -> None:
    """All prompts; then what the response says of itself goes to a file."""
    limits = {"max_requests_per_minute": 1_000_000, "max_tokens_per_minute": 1_000_000_000}
    llm = Answer(
        model_name="test-model",
        backend="openai",
        backend_params={"base_url": base_url, "max_concurrent_requests": in_flight, **limits},
    )
    lines = Path(dataset).read_text("utf-8").splitlines()
    response = llm(Dataset.from_list([json.loads(line) for line in lines]), working_dir=str(CACHE))
    rows = {row["prompt"] for row in response.dataset if row["text"]}
    ACCOUNT.write_text(json.dumps({"rows": len(rows), "tokens": response.token_usage.total}), "utf-8")


def report() -> None:
    """Print the account. The rows' own usage is in its cache; nothing names a call that was cut off."""
    kept = [json.loads(line) for file in CACHE.glob("*/responses_*.jsonl") for line in file.open("rb")]
    row_tokens = sum(line["token_usage"]["total"] for line in kept if line["token_usage"])
    print(json.dumps({**json.loads(ACCOUNT.read_text("utf-8")), "row_tokens": row_tokens, "named": []}))


if __name__ == "__main__":
    if sys.argv[1] == "run":
        run(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        report()
