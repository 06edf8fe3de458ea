"""One cluster for all tests here: it takes seconds to start."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.ray.cluster import RunningCluster, starting_cluster


@pytest.fixture(scope="session", autouse=True)
def _whole_cluster() -> Iterator[Callable[[], RunningCluster]]:
    """The cluster; another one where a test has ended it.

    It starts while the first tests are at work, which need none (`test_own_cluster.py`).
    """
    with ExitStack() as stack:
        made = [stack.enter_context(starting_cluster())]

        def whole() -> RunningCluster:
            if not made[-1]().is_whole:
                made.append(stack.enter_context(starting_cluster()))
            return made[-1]()

        yield whole


@pytest.fixture
def cluster(_whole_cluster: Callable[[], RunningCluster]) -> RunningCluster:
    """A cluster of two nodes that work, whatever the tests before did to theirs."""
    found = _whole_cluster()
    found.restore()
    return found
