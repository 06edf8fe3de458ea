import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evrun.tools import parse_arguments
from tests.evrun.boxes import find_tool

READ = find_tool("read_file")
WRITE = find_tool("write_file")
TERMINAL = find_tool("terminal")
LIST = find_tool("list_files")


@pytest.mark.parametrize(
    ("tool", "text", "arguments"),
    [
        (READ, '{"path": "a"}', {"path": "a"}),
        (READ, ' {"path": "a", "offset": 3, "limit": 4}\n', {"path": "a", "offset": 3, "limit": 4}),
        (READ, '{"path": "a", "offset": 3.0, "limit": null}', {"path": "a", "offset": 3}),
        (TERMINAL, '{"command": "ls", "timeout_s": 1}', {"command": "ls", "timeout_s": 1}),
        (TERMINAL, '{"command": "ls", "timeout_s": 0.5}', {"command": "ls", "timeout_s": 0.5}),
        (WRITE, '{"path": "a", "content": ""}', {"path": "a", "content": ""}),
        (LIST, "", {}),
        (LIST, "{}", {}),
    ],
)
def test_arguments_that_fit_are_taken(tool, text, arguments):
    """Null is an optional argument left out, 3.0 a whole number, empty text no arguments."""
    assert parse_arguments(text, tool) == arguments


@pytest.mark.parametrize(
    ("tool", "text", "problem"),
    [
        (READ, '{"path": "a"', "the arguments are not JSON"),
        (READ, "path=a", 'the arguments are not JSON (Expecting value at character 0): "path=a"'),
        (READ, '{"path": "a"}{"path": "b"}', "found more after it at character 13"),
        (READ, '{"path": "a", "path": "b"}', '"path" is there twice'),
        (READ, '["a"]', "must be one JSON object, found an array"),
        (READ, "null", "must be one JSON object, found null"),
        (READ, '"{}"', 'must be one JSON object, found the string "{}"'),
        (READ, "[" * 100_000, "the arguments of read_file are not usable JSON"),
        (READ, "", "read_file needs the argument path"),
        (WRITE, "{}", "write_file needs the arguments path, content"),
        (READ, '{"path": null}', "read_file needs the argument path"),
        (READ, '{"path": "a", "file": "b"}', 'read_file has no argument "file"; it has path, offset, limit'),
        (READ, '{"path": 7}', "read_file: the argument path must be a string, found the number 7"),
        (READ, '{"path": "a", "offset": "3"}', 'must be a whole number, found the string "3"'),
        (READ, '{"path": "a", "offset": 1.5}', "must be a whole number, found the number 1.5"),
        (READ, '{"path": "a", "offset": true}', "must be a whole number, found the boolean true"),
        (READ, '{"path": "a", "offset": 0}', "must be a whole number of at least 1, found the number 0"),
        (TERMINAL, '{"command": "ls", "timeout_s": NaN}', "NaN is no JSON number"),
        (TERMINAL, '{"command": "ls", "timeout_s": 1e999}', "must be a number, found the number"),
        (TERMINAL, '{"command": "ls", "timeout_s": -1}', "must be a number of at least 0.1"),
        (TERMINAL, '{"command": {"ls": 1}}', "the argument command must be a string, found an object"),
        (TERMINAL, '{"command": "' + "x" * 500, "…"),
    ],
)
def test_arguments_that_do_not_fit_are_a_problem_in_plain_words(tool, text, problem):
    """Never an empty object in their place: the model is told what was wrong, and shown a little of it."""
    found = parse_arguments(text, tool)
    assert isinstance(found, str)
    assert problem in found
    assert len(found) < 250


@given(
    st.text() | st.recursive(st.none() | st.text() | st.floats() | st.integers(), st.lists).map(json.dumps)
)
def test_any_text_gives_arguments_or_a_problem(text):
    """Whatever a model writes, nothing is raised."""
    assert isinstance(parse_arguments(text, READ), dict | str)


@given(st.fixed_dictionaries({"path": st.text(), "content": st.text()}))
def test_arguments_of_the_right_shape_come_through_unchanged(arguments):
    """Any text at all, also with lone surrogates written as escapes."""
    assert parse_arguments(json.dumps(arguments), WRITE) == arguments
    assert parse_arguments(json.dumps({**arguments, "content": "\ud800"}), WRITE)["content"] == "\ud800"
