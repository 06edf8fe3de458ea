import json

import pytest

from evrun.errors import UsageFault
from evrun.tools import BUILT_IN, toolset_names
from tests.evrun.boxes import definitions, find_tool


def test_definitions_are_plain_json_with_name_description_and_parameters():
    """They go to the endpoint, into the log and into the trajectory's system turn."""
    found = definitions(["terminal", "file", "web", "python"])
    assert json.loads(json.dumps(found)) == found
    assert [tool["name"] for tools in found.values() for tool in tools] == [
        "terminal", "read_file", "write_file", "patch", "list_files", "search_files",
        "web_fetch", "python",
    ]  # fmt: skip
    for tool in [tool for tools in found.values() for tool in tools]:
        assert list(tool) == ["name", "description", "parameters"]
        assert tool["parameters"]["type"] == "object"
        assert set(tool["parameters"]["required"]) <= set(tool["parameters"]["properties"])
        assert tool["parameters"]["additionalProperties"] is False


def test_every_tool_is_found_by_its_name_and_no_other():
    """Names are unique over all toolsets."""
    tools = [tool for toolset in BUILT_IN.values() for tool in toolset.tools]
    assert len({tool.name for tool in tools}) == len(tools)
    assert all(find_tool(tool.name) is tool for tool in tools)
    assert find_tool("nosuch") is None


def test_unknown_toolset_is_refused_with_the_known_ones():
    """Also one that other runners have."""
    assert toolset_names() == ("terminal", "file", "web", "python")
    expected = "--toolsets browser: expected one of terminal, file, web, python, or none"
    with pytest.raises(UsageFault, match=expected):
        definitions(["terminal", "browser"])
