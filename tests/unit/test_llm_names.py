"""Names of operations on the wire."""

from __future__ import annotations

import pytest

from duckflow_tui.llm.codec import wire_name, wire_names


def test_a_dot_becomes_two_underscores_and_maps_back() -> None:
    names = wire_names(["file_ops.read_file", "git.status"])
    assert names == {"file_ops__read_file": "file_ops.read_file", "git__status": "git.status"}


def test_a_long_name_keeps_55_characters_and_gets_a_digest() -> None:
    one = wire_name("mcp.server." + "a" * 60 + "x")
    two = wire_name("mcp.server." + "a" * 60 + "y")
    assert len(one) == len(two) == 64
    assert one[:55] == two[:55]
    assert one[55] == "_"
    assert int(one[56:], 16) >= 0
    assert one != two
    assert len(wire_name("x" * 64)) == 64
    assert wire_name("x" * 64) == "x" * 64


def test_what_providers_do_not_allow_is_replaced() -> None:
    assert wire_name("mcp.鴨.get item") == "mcp_____get_item"


def test_two_operations_with_one_wire_name_are_refused() -> None:
    with pytest.raises(ValueError, match="both a__b"):
        wire_names(["a.b", "a__b"])
    with pytest.raises(ValueError, match="decide"):
        wire_names(["decide"])
