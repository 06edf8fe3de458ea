"""What users bring: Python files of their own, and projections made of them."""

from .code import load_name, place_of, run_file
from .projection import Projection, as_pieces, as_value, digest_of

__all__ = ["Projection", "as_pieces", "as_value", "digest_of", "load_name", "place_of", "run_file"]
