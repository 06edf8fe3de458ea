import psutil


def test_a_killed_node_is_gone_with_all_its_processes_and_another_takes_its_place(cluster):
    """Raylet and children end at once, the other node is untouched, and `restore` adds a third."""
    lost, kept = cluster.alive
    processes = psutil.Process(lost.raylet).children(recursive=True)
    cluster.kill(lost)
    psutil.wait_procs(processes, timeout=10)
    assert not any(process.is_running() for process in processes)
    assert cluster.alive == [kept]
    cluster.restore()
    assert len(cluster.alive) == 2
    assert kept in cluster.alive
