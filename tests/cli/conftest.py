"""Runs to read: one whose process died, one that ended in order, both in `data` of an empty directory."""

import pytest

from tests.cli.story import crashed, finished, tell


@pytest.fixture
def crash(tmp_path):
    """`data/crash`: one prompt kept, one open with a call out, one pending; nobody holds it."""
    return tell(tmp_path / "data/crash", crashed())


@pytest.fixture
def done(tmp_path):
    """`data/done`: one prompt kept, one discarded, one failed with its call in doubt; closed in order."""
    return tell(tmp_path / "data/done", finished())
