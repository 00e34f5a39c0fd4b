"""Topic patterns in a trie, matched as an automaton.

A pattern is words separated by dots; `*` stands for one word, `#` for none or more. Matching keeps the set
of trie nodes that the words so far can have led to. A `#` node stays in the set whatever comes, and entering
a node enters its `#` child as well (none is also a number of words). The set never holds a node twice, so
patterns such as `#.#.#.#` cost no more than their length.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)

SEPARATOR = "."
ONE_WORD = "*"
ANY_WORDS = "#"


def split(key: str) -> list[str]:
    """The words of a key; the empty key has none."""
    return key.split(SEPARATOR) if key else []


class Node(Generic[T]):
    __slots__ = ("children", "is_any", "values")

    def __init__(self, is_any: bool = False) -> None:
        self.children: dict[str, Node[T]] = {}
        self.values: dict[T, int] = {}  # how many bindings ask for it
        self.is_any = is_any


class TopicTrie(Generic[T]):
    __slots__ = ("root",)

    def __init__(self) -> None:
        self.root: Node[T] = Node()

    def add(self, pattern: str, value: T) -> None:
        node = self.root
        for word in split(pattern):
            child = node.children.get(word)
            if child is None:
                child = node.children[word] = Node(word == ANY_WORDS)
            node = child
        node.values[value] = node.values.get(value, 0) + 1

    def remove(self, pattern: str, value: T) -> None:
        path = [self.root]
        words = split(pattern)
        for word in words:
            path.append(path[-1].children[word])
        node = path[-1]
        if node.values[value] > 1:
            node.values[value] -= 1
            return
        del node.values[value]
        for word, parent, child in zip(reversed(words), reversed(path[:-1]), reversed(path[1:]), strict=True):
            if child.values or child.children:
                break
            del parent.children[word]

    def match(self, key: str) -> Collection[T]:
        """The values of all patterns that match, each once, in the order of first mention."""
        nodes: dict[Node[T], None] = {}
        enter(self.root, nodes)
        for word in split(key):
            reached: dict[Node[T], None] = {}
            for node in nodes:
                if node.is_any:
                    enter(node, reached)
                children = node.children
                if children:
                    child = children.get(word)
                    if child is not None and not child.is_any:
                        enter(child, reached)
                    child = children.get(ONE_WORD)
                    if child is not None and word != ONE_WORD:
                        enter(child, reached)
            nodes = reached
            if not nodes:
                break
        found: dict[T, None] = {}
        for node in nodes:
            for value in node.values:
                found[value] = None
        return found


def enter(node: Node[T], nodes: dict[Node[T], None]) -> None:
    """Add a node and, as `#` may stand for no words, the chain of `#` nodes below it."""
    entered: Node[T] | None = node
    while entered is not None and entered not in nodes:
        nodes[entered] = None
        entered = entered.children.get(ANY_WORDS)


class TopicPattern:
    """One pattern by itself, as a filter has it: cut at each `#`, every piece is looked for behind the one
    before it. The first place where it stands is good enough, so nothing is tried twice."""

    __slots__ = ("pieces",)

    def __init__(self, pattern: str) -> None:
        self.pieces: list[list[str]] = [[]]
        for word in split(pattern):
            if word == ANY_WORDS:
                self.pieces.append([])
            else:
                self.pieces[-1].append(word)

    def matches(self, key: str) -> bool:
        words = split(key)
        first, *others = self.pieces
        if not others:
            return len(words) == len(first) and stands_at(first, words, 0)
        last = others.pop()
        at, end = len(first), len(words) - len(last)
        if at > end or not stands_at(first, words, 0) or not stands_at(last, words, end):
            return False
        for piece in others:
            while at + len(piece) <= end and not stands_at(piece, words, at):
                at += 1
            at += len(piece)
            if at > end:
                return False
        return True


def stands_at(piece: list[str], words: list[str], at: int) -> bool:
    return all(wanted in (ONE_WORD, words[at + place]) for place, wanted in enumerate(piece))
