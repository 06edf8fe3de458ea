"""What a provider's answer or refusal means for the run. Pure."""

from .retry_after import parse_retry_after
from .verdict import Verdict, classify

__all__ = ["Verdict", "classify", "parse_retry_after"]
