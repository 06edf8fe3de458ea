"""What the tests of the projections share."""

import pytest

from .histories import LogMaker


@pytest.fixture
def maker(tmp_path):
    """A log to write into."""
    with LogMaker(tmp_path / "run" / "log") as made:
        yield made
