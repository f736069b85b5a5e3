"""The tree of a chat's messages: which branch is shown, and which versions stand beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Node:
    """A message's place; children are told apart by `parent`, the first messages have None."""

    id: int
    parent: int | None
    active_child: int | None


@dataclass(frozen=True)
class Shown:
    """A message on the shown branch: the `version`-th of `versions`, counted from 1."""

    id: int
    version: int
    versions: int


def children(nodes: Sequence[Node]) -> dict[int | None, list[int]]:
    """The ids below each parent, oldest first."""
    found: dict[int | None, list[int]] = {}
    for node in sorted(nodes, key=lambda node: node.id):
        found.setdefault(node.parent, []).append(node.id)
    return found


def shown_branch(nodes: Sequence[Node], active_root: int | None) -> list[Shown]:
    """From the first message down, at each fork the chosen child, or else the newest."""
    by_id: Mapping[int, Node] = {node.id: node for node in nodes}
    below = children(nodes)
    branch: list[Shown] = []
    parent: int | None = None
    chosen = active_root
    while versions := below.get(parent):
        current = chosen if chosen in versions else versions[-1]
        assert current is not None
        branch.append(Shown(current, versions.index(current) + 1, len(versions)))
        parent = current
        chosen = by_id[current].active_child
    return branch
