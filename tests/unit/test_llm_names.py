"""Names of operations on the wire."""

from __future__ import annotations

from duckflow_tui.llm.codec import wire_name


def test_a_dot_becomes_two_underscores_and_maps_back() -> None:
    assert wire_name("file_ops.read_file") == "file_ops__read_file"


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
