"""Which versions of what made a run: for the record, so that a result can be explained later."""

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def versions() -> dict[str, str]:
    """Versions of evrun, Python and what decides about results."""
    named = {"python": platform.python_version(), "platform": platform.platform(terse=True)}
    for package in ("evrun", "aiohttp", "httpx", "genai-prices"):
        named[package] = _version(package)
    return named


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
