"""One cluster for all tests here: it takes seconds to start."""

from collections.abc import Iterator

import pytest

from tests.ray.cluster import RunningCluster, running_cluster


@pytest.fixture(scope="session")
def _cluster() -> Iterator[RunningCluster]:
    with running_cluster() as cluster:
        yield cluster


@pytest.fixture
def cluster(_cluster: RunningCluster) -> RunningCluster:
    """A cluster of two nodes that work, whatever the tests before did to theirs."""
    _cluster.restore()
    return _cluster
