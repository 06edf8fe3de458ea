import json
import os
import threading

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evrun.effects.secrets import Redactor
from evrun.tools import ToolContext, parse_arguments, run_tool
from tests.evrun.boxes import find_tool

SECRET = "sk-0123456789abcdef"


@pytest.fixture
def place(tmp_path):
    """An attempt's directory, with a file outside of it that must never be seen or touched."""
    (tmp_path / "outside.txt").write_text("outside\n")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "deep.txt").write_text("outside\n")
    place = tmp_path / "attempt"
    place.mkdir()
    return place


def use(place, name, timeout_s=60.0, **arguments):
    """Run a file tool with arguments as a model would write them; the result, read."""
    tool = find_tool(name)
    checked = parse_arguments(json.dumps(arguments), tool)
    assert isinstance(checked, dict), checked
    context = ToolContext(place, "test/unit-a1", timeout_s, Redactor({"KEY": SECRET}))
    return json.loads(anyio.run(lambda: run_tool(tool, checked, context)))


def untouched(place):
    """Whether everything outside is as it was."""
    outside = place.parent
    names = sorted(path.name for path in outside.iterdir())
    texts = {(outside / "outside.txt").read_text(), (outside / "outside" / "deep.txt").read_text()}
    return names == ["attempt", "outside", "outside.txt"] and texts == {"outside\n"}


def test_file_that_was_written_is_read_patched_listed_and_found(place):
    """The five tools on one file, with private modes."""
    assert use(place, "write_file", path="src/a.txt", content="one\ntwo\n") == {
        "bytes_written": 8,
        "error": None,
    }
    assert use(place, "read_file", path="src/a.txt") == {
        "content": "one\ntwo\n", "first_line": 1, "total_lines": 2, "truncated": False, "error": None,
    }  # fmt: skip
    assert use(place, "patch", path="src/a.txt", old="two", new="2") == {"replaced": 1, "error": None}
    assert use(place, "list_files") == {"entries": ["src/"], "truncated": False, "error": None}
    assert use(place, "search_files", pattern="^2|x$")["matches"] == [
        {"path": "src/a.txt", "line": 2, "text": "2"}
    ]
    assert (place / "src").stat().st_mode & 0o777 == 0o700
    assert (place / "src/a.txt").stat().st_mode & 0o777 == 0o600


OUTSIDE = [
    "../outside.txt",
    "sub/../../outside.txt",
    "/etc/passwd",
    "~/../outside.txt",
    "{parent}/outside.txt",
    "link.txt",
    "folder_link/deep.txt",
    "sub/up/outside.txt",
    "absolute_link",
]


@pytest.mark.parametrize("path", OUTSIDE)
@pytest.mark.parametrize(
    ("tool", "more"),
    [("read_file", {}), ("write_file", {"content": "x"}), ("patch", {"old": "outside", "new": "x"})],
)
def test_no_path_leads_out_of_the_directory(place, path, tool, more):
    """Neither dots, nor absolute paths, nor links to files or directories, for reading or writing."""
    (place / "sub").mkdir()
    (place / "link.txt").symlink_to("../outside.txt")
    (place / "folder_link").symlink_to("../outside")
    (place / "sub/up").symlink_to("../..")
    (place / "absolute_link").symlink_to("/etc/hostname")
    result = use(place, tool, path=path.format(parent=place.parent), **more)
    assert "outside the working directory" in result["error"] or "symbolic link" in result["error"]
    assert "content" not in result
    assert untouched(place)


@pytest.mark.parametrize("path", ["..", "/", "folder_link", "folder_link/.", "sub/up"])
@pytest.mark.parametrize(("tool", "more"), [("list_files", {}), ("search_files", {"pattern": "outside"})])
def test_nothing_outside_is_listed_or_searched(place, path, tool, more):
    """Also not by searching a directory in which a link stands."""
    (place / "sub").mkdir()
    (place / "folder_link").symlink_to("../outside")
    (place / "link.txt").symlink_to("../outside.txt")
    (place / "sub/up").symlink_to("../..")
    result = use(place, tool, path=path, **more)
    assert "outside the working directory" in result["error"] or "symbolic link" in result["error"]
    assert use(place, "search_files", pattern="outside") == {"matches": [], "truncated": False, "error": None}


def test_link_that_takes_the_place_of_a_directory_during_the_work_leads_nowhere(place):
    """One thread swaps a directory and a link for as long as another reads through it: nothing gets in."""
    (place / "real").mkdir()
    (place / "real" / "deep.txt").write_text("inside")
    stop = threading.Event()

    def swap():
        while not stop.is_set():
            os.rename(place / "real", place / "aside")  # noqa: PTH104 - fast, on purpose
            os.symlink("../outside", place / "real")  # noqa: PTH211 - likewise
            os.unlink(place / "real")  # noqa: PTH108 - likewise
            os.rename(place / "aside", place / "real")  # noqa: PTH104 - likewise

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        results = [use(place, "read_file", path="real/deep.txt") for _ in range(200)]
    finally:
        stop.set()
        swapper.join()
    assert {result.get("content", "inside") for result in results} == {"inside"}
    assert any(result["error"] is None for result in results)


@pytest.mark.parametrize(
    "path", ["a.txt", "./a.txt", "sub/../a.txt", "~/a.txt", "{place}/a.txt", "sub//..//a.txt"]
)
def test_every_way_of_naming_a_file_inside_is_good(place, path):
    """Models write paths in many ways; those that lead inside work."""
    (place / "a.txt").write_text("here")
    assert use(place, "read_file", path=path.format(place=place))["content"] == "here"


def test_what_is_no_regular_file_is_refused_and_never_waited_for(place):
    """A named pipe would hold up a reader and a writer for ever."""
    os.mkfifo(place / "pipe")
    (place / "folder").mkdir()
    for tool, more in (("read_file", {}), ("write_file", {"content": "x"})):
        assert use(place, tool, path="pipe", **more)["error"] == "pipe is no regular file"
        assert use(place, tool, path="folder", **more)["error"] == "folder is a directory"
        assert use(place, tool, path=".", **more)["error"] == ". is a directory"
    assert use(place, "search_files", pattern="x")["matches"] == []


@pytest.mark.parametrize(
    ("tool", "arguments", "problem"),
    [
        ("read_file", {"path": "gone.txt"}, "gone.txt: No such file or directory"),
        ("read_file", {"path": "gone/x.txt"}, "gone/x.txt: No such file or directory"),
        ("read_file", {"path": ""}, "the path is empty"),
        ("read_file", {"path": "a\0b"}, "NUL"),
        ("read_file", {"path": "x" * 300}, "File name too long"),
        ("read_file", {"path": "binary"}, "binary is not a text file"),
        ("read_file", {"path": "text/x"}, "text is no directory"),
        ("write_file", {"path": "text/x", "content": ""}, "text is no directory"),
        ("write_file", {"path": "x", "content": "\ud800"}, "surrogates not allowed"),
        ("patch", {"path": "text", "old": "", "new": "x"}, "old is empty"),
        ("patch", {"path": "text", "old": "no", "new": "x"}, "old stands in text 0 times"),
        ("patch", {"path": "text", "old": "ab", "new": "x"}, "old stands in text 2 times"),
        ("list_files", {"path": "gone"}, "gone: No such file or directory"),
        ("list_files", {"path": "text"}, "text is no directory"),
        ("search_files", {"pattern": "(", "path": "."}, "not a regular expression"),
        ("search_files", {"pattern": "x", "path": "gone"}, "gone: No such file or directory"),
    ],
)
def test_what_goes_wrong_is_an_error_in_words(place, tool, arguments, problem):
    """The model reads what was wrong; nothing is raised and the file is as it was."""
    (place / "text").write_text("ab ab")
    (place / "binary").write_bytes(b"a\0b")
    assert problem in use(place, tool, **arguments)["error"]
    assert (place / "text").read_text() == "ab ab"


def test_lines_are_counted_alike_by_reading_and_searching(place):
    """Only a line feed ends a line; the last one needs none."""
    (place / "f").write_bytes("a\u2028b\rc\x0cd\nfind me\n\nlast".encode())
    assert use(place, "read_file", path="f", offset=2, limit=1)["content"] == "find me\n"
    assert use(place, "read_file", path="f")["total_lines"] == 4
    assert use(place, "search_files", pattern="find")["matches"][0]["line"] == 2
    assert use(place, "read_file", path="f", offset=9)["content"] == ""


def test_long_files_long_directories_and_many_matches_are_cut_and_say_so(place):
    """Nothing a model asks for can flood its context."""
    (place / "long").write_text("line\n" * 5000)
    (place / "wide").write_text("x" * 200_000)
    (place / "many").mkdir()
    for number in range(510):
        (place / "many" / f"{number:03}").write_text("needle in " + "hay " * 500)
    read = use(place, "read_file", path="long")
    assert (read["content"], read["total_lines"], read["truncated"]) == ("line\n" * 2000, 5000, True)
    assert use(place, "read_file", path="long", offset=4001)["truncated"] is False
    wide = use(place, "read_file", path="wide")
    assert (len(wide["content"]), wide["truncated"]) == (50_000, True)
    listed = use(place, "list_files", path="many")
    assert (len(listed["entries"]), listed["truncated"]) == (500, True)
    found = use(place, "search_files", pattern="needle")
    assert found["truncated"] is True
    assert 100 < len(found["matches"]) <= 200
    assert found["matches"][0]["path"] == "many/000"
    assert len(found["matches"][0]["text"]) < 500


def test_file_that_is_too_large_is_refused(place):
    """Eleven megabytes are for the terminal."""
    with (place / "large").open("wb") as file:
        file.truncate(11 << 20)
    assert "larger than 10 MiB" in use(place, "read_file", path="large")["error"]


def test_pattern_that_takes_for_ever_is_stopped(place):
    """A regular expression that doubles its work with each letter runs in a process that can be killed."""
    (place / "f").write_text("a" * 60 + "!")
    result = use(place, "search_files", timeout_s=2.0, pattern="^(a+)+$")
    assert "took too long" in result["error"]


def test_key_in_a_file_is_replaced_before_the_text_is_cut(place):
    """A key that stands across the cut is not shown in half."""
    (place / "f").write_text("." * 49_990 + SECRET)
    content = use(place, "read_file", path="f")["content"]
    assert content.endswith(".[redacted:")
    assert "sk-" not in content


def test_temporary_files_of_commands_are_not_listed(place):
    """The hidden directory for them is evrun's affair."""
    (place / ".tmp").mkdir()
    (place / ".tmp/x").write_text("needle")
    assert use(place, "list_files")["entries"] == []
    assert use(place, "search_files", pattern="needle")["matches"] == []


def test_names_that_are_no_text_are_shown_as_well_as_they_can_be(place):
    """A file name in another encoding breaks neither the list nor the search."""
    (os.fsencode(place) + b"/caf\xe9").decode("utf-8", "surrogateescape")
    descriptor = os.open(os.fsencode(place) + b"/caf\xe9", os.O_CREAT | os.O_WRONLY)
    os.write(descriptor, b"needle")
    os.close(descriptor)
    assert use(place, "list_files")["entries"] == ["caf\ufffd"]
    assert use(place, "search_files", pattern="needle")["matches"][0]["path"] == "caf\ufffd"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None)
@given(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_any_text_that_is_written_is_read_as_it_was(place, text):
    """No newline is translated, nothing is added at the end."""
    use(place, "write_file", path="f", content=text)
    assert (place / "f").read_bytes() == text.encode()
    assert use(place, "read_file", path="f")["content"] == text


def test_each_tool_says_whether_it_may_be_repeated_and_run_beside_others():
    """What reads may do both; what writes the whole may be repeated; what changes a part may do neither."""
    names = ("terminal", "read_file", "write_file", "patch", "list_files", "search_files")
    said = {name: (find_tool(name).safe_to_repeat, find_tool(name).concurrent) for name in names}
    assert said == {
        "terminal": (False, False),
        "read_file": (True, True),
        "write_file": (True, False),
        "patch": (False, False),
        "list_files": (True, True),
        "search_files": (True, True),
    }
