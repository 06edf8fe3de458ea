"""Files of a run as others read them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.runs import environment

LOAD = """
import json, sys
from datasets import load_dataset
loaded = load_dataset("json", data_files=sys.argv[1], split="train")
print(json.dumps([loaded.num_rows, sorted(loaded.features), sorted(loaded["prompt_index"])]))
"""


def load(tmp_path: Path, path: Path) -> Any:
    """What Hugging Face's `datasets` makes of a file, without network and with a cache of its own."""
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(path)],
        env=environment(HF_DATASETS_OFFLINE="1", HF_HUB_OFFLINE="1", HF_HOME=str(tmp_path / "hf")),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])
