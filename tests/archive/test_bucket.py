"""An archive in a bucket: over HTTP, on a real small server, with cut wires, a killed upload and damage."""

import shutil
import signal
import subprocess
import sys

import obstore
import pytest
from obstore.store import S3Store

from tests.archive.logs import damage, first_half, large, second_half
from tests.archive.s3 import BUCKET, SECRET, Wire, free_port, running_server
from tests.cli.shell import ENVIRONMENT, EVRUN, evrun
from tests.cli.story import UNITS

MIB = 1 << 20


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """One server for all tests here; each has a prefix of its own."""
    with running_server(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def place(server, request, monkeypatch):
    """A place in the bucket for this test, with the environment that leads there."""
    lead(monkeypatch, server.environment())
    return f"s3://{BUCKET}/tests/{request.node.name.partition('[')[0]}"


def lead(monkeypatch, environment):
    """Set the variables, for this process and for those that it starts."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


def objects(server, place):
    """The files of the place's objects, by their names."""
    return server.files(place.removeprefix(f"s3://{BUCKET}/"))


def sent(said):
    """The names of what an archiving has sent."""
    assert said.code == 0, said.err
    return [one["name"] for one in said.json["sent"]]


def test_a_bucket_holds_the_run_and_gives_it_back(server, place, tmp_path):
    """Archived, verified, read, replayed and restored, all by the bucket's name."""
    second_half(first_half(tmp_path / "data/run"))
    assert len(sent(evrun("archive", "run", place, "--json", cwd=tmp_path))) == 3
    assert sent(evrun("archive", "run", f"{place}/", "--json", cwd=tmp_path)) == []
    of_run, of_bucket = (evrun("verify", name, "--json", cwd=tmp_path).json for name in ("run", place))
    assert (of_bucket["class"], of_bucket["chain"]) == ("clean", of_run["chain"])
    assert evrun("status", place, "--json", cwd=tmp_path).json["dir"] == place
    for words in (("audit",), ("events",), ("show", UNITS[0])):
        told = [evrun(words[0], name, *words[1:], "--json", cwd=tmp_path).out for name in ("run", place)]
        assert told[0] == told[1]
    for name, out in (("run", "a"), (place, "b")):
        assert evrun("replay", name, "--out", out, cwd=tmp_path).code == 0
    assert [path.read_bytes() for path in sorted((tmp_path / "a").iterdir())] == [
        path.read_bytes() for path in sorted((tmp_path / "b").iterdir())
    ]
    assert evrun("archive", "--restore", place, "data/back", cwd=tmp_path).code == 0
    assert evrun("events", "back", cwd=tmp_path).out == evrun("events", "run", cwd=tmp_path).out


def test_a_large_segment_goes_in_parts_and_comes_back(server, place, tmp_path):
    """More than a part in one file; nothing of a part is left on the server."""
    large(tmp_path / "data/run", [9 * MIB])
    assert len(sent(evrun("archive", "run", place, "--json", cwd=tmp_path))) == 2
    said = evrun("verify", place, "--json", cwd=tmp_path).json
    assert said["chain"] == evrun("verify", "run", "--json", cwd=tmp_path).json["chain"]
    assert not [path for path in (server.objects.parent / ".nanio/multipart").rglob("*") if path.is_file()]


def test_a_killed_upload_leaves_the_old_archive_and_is_gone_on_with(server, place, tmp_path):
    """SIGKILL while the last of four segments goes: the old archive holds, and two are not sent again."""
    run = large(tmp_path / "data/run", [MIB])
    assert evrun("archive", "run", place, cwd=tmp_path).code == 0
    old = evrun("verify", place, "--json", cwd=tmp_path).json
    large(run, [MIB, MIB, 2 * MIB], seed=8)
    with Wire(server.port, full_after=3 * MIB) as wire:
        environment = ENVIRONMENT | server.environment(wire.port)
        with subprocess.Popen([*EVRUN, "archive", "run", place], cwd=tmp_path, env=environment) as process:
            assert wire.full.wait(60)
            process.kill()
    assert evrun("verify", place, "--json", cwd=tmp_path).json == old
    left = [name for name in objects(server, place) if ".evl." in name]
    assert [name[:35].rpartition("-")[2] for name in left] == ["00000001", "00000002", "00000003"]
    again = sent(evrun("archive", "run", place, "--json", cwd=tmp_path))
    assert [name.rpartition("-")[2] for name in again] == ["00000004.evl", "HEAD"]
    new = evrun("verify", place, "--json", cwd=tmp_path).json
    assert new["chain"] == evrun("verify", "run", "--json", cwd=tmp_path).json["chain"]


def test_an_interrupt_ends_an_upload_that_stands(server, place, tmp_path):
    """The server takes nothing any more; Ctrl-C is heard all the same, and there is no archive."""
    large(tmp_path / "data/run", [2 * MIB])
    with Wire(server.port, full_after=MIB) as wire:
        environment = ENVIRONMENT | server.environment(wire.port)
        with subprocess.Popen(
            [*EVRUN, "archive", "run", place],
            cwd=tmp_path,
            env=environment,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
        ) as process:
            assert wire.full.wait(60)
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
    assert evrun("verify", place, cwd=tmp_path).code == 2


def test_damage_in_the_bucket_is_found_by_verify(server, place, tmp_path):
    """A flipped bit in any object, a cut one, a missing one: exit 5, and its name."""
    second_half(first_half(tmp_path / "data/run"))
    evrun("archive", "run", place, cwd=tmp_path)
    for name, path in objects(server, place).items():
        data = path.read_bytes()
        damage(path, len(data) // 2)
        said = evrun("verify", place, "--json", cwd=tmp_path)
        assert (said.code, name in said.json["problem"]["segment"]) == (5, True)
        assert evrun("events", place, cwd=tmp_path).code == 5
        path.write_bytes(data)
    victim = next(name for name in objects(server, place) if "00000002.evl" in name)
    store = S3Store(BUCKET, client_options={"allow_http": True})
    key = f"{place.removeprefix(f's3://{BUCKET}/')}/{victim}"
    obstore.put(store, key, objects(server, place)[victim].read_bytes()[:-512])
    assert "bytes, and" in evrun("verify", place, cwd=tmp_path).out
    obstore.delete(store, key)
    assert "is missing" in evrun("replay", place, "--out", "out", cwd=tmp_path).err
    assert sent(evrun("archive", "run", place, "--json", cwd=tmp_path)) != []
    assert evrun("verify", place, cwd=tmp_path).code == 0


def test_what_comes_back_otherwise_than_it_was_sent_is_not_archived(server, place, tmp_path, monkeypatch):
    """One bit turns while a segment is read back: exit 1, no archive; read right later, it is believed."""
    large(tmp_path / "data/run", [MIB])
    with Wire(server.port, spoils_after=MIB // 2) as wire:
        lead(monkeypatch, server.environment(wire.port))
        said = evrun("archive", "run", place, cwd=tmp_path)
    assert said.code == 1
    assert "it was read back and differs" in said.err
    lead(monkeypatch, server.environment())
    assert evrun("verify", place, cwd=tmp_path).code == 2
    assert sent(evrun("archive", "run", place, "--json", cwd=tmp_path)) == ["HEAD"]
    assert evrun("verify", place, cwd=tmp_path).code == 0


def test_connections_that_break_are_made_again_by_the_library(server, place, tmp_path, monkeypatch):
    """The first three are closed at once; the archive is made all the same."""
    second_half(first_half(tmp_path / "data/run"))
    with Wire(server.port, cut=3) as wire:
        lead(monkeypatch, server.environment(wire.port))
        assert len(sent(evrun("archive", "run", place, "--json", cwd=tmp_path))) == 3
        assert wire.connections > 3


def test_a_store_that_fails_for_good_ends_with_what_was_sent(server, place, tmp_path, monkeypatch):
    """Nobody listens any more after two segments: exit 1, what went, and nothing that is half there."""
    large(tmp_path / "data/run", [MIB, MIB, 3 * MIB])
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "2")
    with Wire(server.port, full_after=4 * MIB, dies=True) as wire:
        lead(monkeypatch, server.environment(wire.port))
        said = evrun("archive", "run", place, cwd=tmp_path)
    assert said.code == 1
    assert "before that 2 files with 2," in said.err
    assert "the same command goes on where this one ended" in said.err
    lead(monkeypatch, server.environment())
    assert evrun("verify", place, cwd=tmp_path).code == 2
    assert len(sent(evrun("archive", "run", place, "--json", cwd=tmp_path))) == 2
    assert evrun("verify", place, cwd=tmp_path).code == 0


def test_nobody_at_the_endpoint_is_exit_1(place, tmp_path, monkeypatch):
    """The message says what was asked for where, and which variables lead there."""
    first_half(tmp_path / "data/run")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "2")
    said = evrun("archive", "run", place, cwd=tmp_path)
    assert said.code == 1
    assert f"reading archive.json in {place} failed" in said.err
    said = evrun("verify", place, cwd=tmp_path)
    assert (said.code, "AWS_ENDPOINT_URL" in said.err) == (1, True)


def test_a_wrong_key_is_refused_without_showing_one(server, place, tmp_path, monkeypatch):
    """Exit 1 with the store's own code for it; no secret is in the message."""
    first_half(tmp_path / "data/run")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong-" + SECRET)
    said = evrun("archive", "run", place, cwd=tmp_path)
    assert said.code == 1
    assert "403 Forbidden" in said.err
    assert SECRET not in said.err + said.out


def test_a_bucket_that_is_not_there_is_exit_1(place, tmp_path):
    """None is made; the message names it."""
    first_half(tmp_path / "data/run")
    said = evrun("archive", "run", "s3://no-such-bucket/x", cwd=tmp_path)
    assert (said.code, "NoSuchBucket" in said.err) == (1, True)


def test_without_the_library_the_extra_is_named(tmp_path, monkeypatch):
    """Exit 2; a directory needs no library."""
    first_half(tmp_path / "data/run")
    monkeypatch.setitem(sys.modules, "obstore", None)
    said = evrun("archive", "run", "s3://bucket/x", cwd=tmp_path)
    assert said.code == 2
    assert "evrun[archive]" in said.err
    assert evrun("archive", "run", "kept", cwd=tmp_path).code == 0


def test_an_archive_can_move_from_a_directory_to_a_bucket(server, place, tmp_path):
    """The objects are the same files under the same names, whoever copies them."""
    second_half(first_half(tmp_path / "data/run"))
    evrun("archive", "run", "kept", cwd=tmp_path)
    shutil.copytree(tmp_path / "kept", server.objects / place.removeprefix(f"s3://{BUCKET}/"))
    assert evrun("verify", place, cwd=tmp_path).code == 0
    assert sent(evrun("archive", "run", place, "--json", cwd=tmp_path)) == []
