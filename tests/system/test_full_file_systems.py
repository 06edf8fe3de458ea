"""Real file systems that are full, and a quota."""

import pytest

from tests.system.filling import results, write_until_full_then_make_room
from tests.system.images import FILE_SYSTEMS, Image, command
from tests.system.processes import judge_and_go_on, numbers


@pytest.mark.parametrize("kind", FILE_SYSTEMS)
def test_a_full_file_system_refuses_commits_and_takes_them_again(server, tmp_path, kind):
    """The same on file systems that allocate late: no commit that was acknowledged was without its space."""
    with Image.make(kind, tmp_path) as disk:
        said = write_until_full_then_make_room(server, disk.at, 40_000)
        assert "U" not in results(said)
        judge_and_go_on(disk.at / "log", [said], 10**7)


@pytest.mark.parametrize("kind", ["btrfs"])
def test_a_quota_refuses_commits_and_takes_them_again_once_it_is_raised(server, tmp_path, kind):
    """EDQUOT from the kernel itself: certainly absent, the handle goes on."""
    with Image.make(kind, tmp_path) as disk:
        command("btrfs", "quota", "enable", disk.at)
        part = disk.at / "part"
        command("btrfs", "subvolume", "create", part)
        command("btrfs", "qgroup", "limit", "1M", part)
        writer = server.start("write", part / "log", count=1_000_000, pause_s=0.002)
        writer.wait_for("N", times=3)
        assert any("errno 122" in " ".join(words) for words in writer.said), writer.said[-1]
        heard = len(numbers(writer.said, "A"))
        command("btrfs", "qgroup", "limit", "none", part)
        writer.wait_for("A", times=heard + 3)
        said = writer.kill()
        judge_and_go_on(part / "log", [said], 10**7)
