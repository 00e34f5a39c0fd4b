"""Topic patterns against the plainest matcher that one can write."""

from __future__ import annotations

from collections import Counter
from functools import cache

from hypothesis import example, given
from hypothesis import strategies as st

from embermq.broker.exchange.topic import TopicPattern, TopicTrie, split

words = st.sampled_from(["", "a", "b", "ab", "*", "#"])
keys = st.lists(words, max_size=6).map(".".join)
patterns = keys


def matches(pattern: str, key: str) -> bool:
    """The definition, recursively: `*` is one word, `#` none or more."""
    ps, ks = split(pattern), split(key)

    @cache
    def rest(i: int, j: int) -> bool:
        if i == len(ps):
            return j == len(ks)
        if ps[i] == "#":
            return any(rest(i + 1, after) for after in range(j, len(ks) + 1))
        return j < len(ks) and ps[i] in ("*", ks[j]) and rest(i + 1, j + 1)

    return rest(0, 0)


@given(patterns=st.lists(patterns, max_size=8), key=keys)
@example(patterns=["#.#", "#.*.#", "*.#", "#"], key="")
@example(patterns=["a.#.#.b"], key="a.b")
@example(patterns=["*", "#"], key="*")
@example(patterns=["a..b", "a.*.b", "..", "*.*.*"], key="a..b")
def test_matches_what_the_definition_matches(patterns: list[str], key: str) -> None:
    trie: TopicTrie[str] = TopicTrie()
    for pattern in patterns:
        trie.add(pattern, pattern)
    found = list(trie.match(key))
    assert sorted(found) == sorted({pattern for pattern in patterns if matches(pattern, key)})


@given(pattern=patterns, key=keys)
@example(pattern="#.a.#.*.#.b", key="a.a.b")
@example(pattern="a.#.a", key="a")
def test_a_pattern_by_itself_matches_the_same(pattern: str, key: str) -> None:
    assert TopicPattern(pattern).matches(key) is matches(pattern, key)


def test_a_pattern_by_itself_does_not_go_back() -> None:
    """Trying all ways to divide the key would take for ever."""
    for pattern in ("#.a." * 100 + "b", "#.*." * 500 + "#", "#.a." * 60 + "#.b.#"):
        assert not TopicPattern(pattern).matches(".".join("a" * 127))


@given(
    steps=st.lists(st.tuples(st.booleans(), patterns, st.integers(0, 2)), max_size=30),
    probes=st.lists(keys, min_size=1, max_size=5),
)
def test_what_is_removed_is_gone_and_what_is_not_stays(
    steps: list[tuple[bool, str, int]], probes: list[str]
) -> None:
    trie: TopicTrie[int] = TopicTrie()
    model: Counter[tuple[str, int]] = Counter()
    for add, pattern, value in steps:
        if add:
            trie.add(pattern, value)
            model[pattern, value] += 1
        elif model[pattern, value]:
            trie.remove(pattern, value)
            model[pattern, value] -= 1
    for key in probes:
        expected = {value for (pattern, value), count in model.items() if count and matches(pattern, key)}
        assert set(trie.match(key)) == expected
    for (pattern, value), count in model.items():
        for _ in range(count):
            trie.remove(pattern, value)
    assert not trie.root.children and not trie.root.values


def test_a_value_comes_once_however_many_patterns_ask_for_it() -> None:
    trie: TopicTrie[str] = TopicTrie()
    for pattern in ("a.b", "a.*", "#", "*.b", "a.#"):
        trie.add(pattern, "queue")
    assert list(trie.match("a.b")) == ["queue"]


def test_many_hashes_do_not_multiply() -> None:
    """A backtracking matcher would need more than a lifetime for this."""
    trie: TopicTrie[str] = TopicTrie()
    trie.add(".".join(["#", "a"] * 60), "queue")
    assert list(trie.match(".".join("a" * 200))) == ["queue"]
    assert list(trie.match(".".join("a" * 200) + ".b")) == []
