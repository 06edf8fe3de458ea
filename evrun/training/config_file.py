"""run.yaml and what was typed behind it, as a checked configuration."""

from pathlib import Path

from .config import TrainingConfig
from .config_record import OPERATIONAL, changes_between, config_from_record, config_record, shaping_changes

__all__ = [
    "OPERATIONAL",
    "changes_between",
    "config_from_record",
    "config_record",
    "load_config",
    "shaping_changes",
]


def load_config(path: Path, overrides: list[str]) -> TrainingConfig:
    """The configuration: defaults, then the file, then overrides ``key.sub=value``.

    Raises:
        UsageFault: the file cannot be read; a key or value is wrong; what Hermit does and evrun does not.
    """
    raise NotImplementedError
