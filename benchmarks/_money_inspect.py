"""inspect_ai in the money table: the task, and what its logs say. Run by inspect_ai's own environment.

python benchmarks/_money_inspect.py LOG_DIRECTORY
"""

import json
import sys
from pathlib import Path

from inspect_ai import Task, task
from inspect_ai.dataset import FieldSpec, json_dataset
from inspect_ai.log import read_eval_log, recover_eval_log
from inspect_ai.solver import generate


@task
def prompts(dataset: str) -> Task:
    """Each prompt, answered once."""
    return Task(dataset=json_dataset(dataset, FieldSpec(input="prompt")), solver=generate())


def main(directory: Path) -> None:
    """Print the account: the log that succeeded; named: what recovery of the killed one shows as cut off."""
    logs = [read_eval_log(str(path)) for path in sorted(directory.glob("*.eval"))]
    done = next(log for log in logs if log.status == "success")
    killed = next(log for log in logs if log.status == "started")
    recovered = recover_eval_log(killed.location, output=str(directory.parent / "recovered.eval"))
    whole = read_eval_log(recovered.location)
    rows = {sample.input for sample in done.samples or [] if sample.output.completion}
    named = {sample.input for sample in whole.samples or [] if sample.error is not None}
    account = {
        "rows": len(rows),
        "tokens": sum(usage.total_tokens for usage in done.stats.model_usage.values()),
        "row_tokens": sum(u.total_tokens for s in done.samples or [] for u in s.model_usage.values()),
        "named": sorted(map(str, named)),
    }
    print(json.dumps(account))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
