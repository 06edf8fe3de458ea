"""A run's rows in the files of other tools: parquet, JSONL, CSV, fine-tuning lines, Hugging Face datasets."""

from .exporting import FORMATS, Export, Exported, export_run
from .target import Target

__all__ = ["FORMATS", "Export", "Exported", "Target", "export_run"]
