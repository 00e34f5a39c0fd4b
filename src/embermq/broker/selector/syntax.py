"""The syntax of selectors: from text to a tree, by recursive descent, a method for each rule of the grammar.

    condition   = term { OR term }
    term        = factor { AND factor }
    factor      = [NOT] predicate
    predicate   = sum [ comparison sum | [NOT] BETWEEN sum AND sum | [NOT] IN (text {, text})
                       | [NOT] LIKE text [ESCAPE text] | IS [NOT] NULL ]
    sum         = product { (+|-) product }
    product     = unary { (*|/) unary }
    unary       = { + | - } primary
    primary     = literal | name { . name } | ( condition )

A selector has at most SELECTOR_BYTES_MAX octets and nests at most DEPTH_MAX deep, which bounds the cost of
each message as well.
"""

from __future__ import annotations

from dataclasses import dataclass

from embermq.broker.selector.token import INT64_MAX, INT64_MIN, SelectorError, Token, tokens

SELECTOR_BYTES_MAX = 8 * 1024
DEPTH_MAX = 64
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")


@dataclass(frozen=True)
class Literal:
    value: str | int | float | bool | None


@dataclass(frozen=True)
class Name:
    """A header, by its path, or with `amqp` as the first part a property or a fact of the message."""

    path: tuple[str, ...]


@dataclass(frozen=True)
class Comparison:
    operator: str
    left: Node
    right: Node


@dataclass(frozen=True)
class Between:
    value: Node
    low: Node
    high: Node


@dataclass(frozen=True)
class In:
    value: Node
    among: frozenset[str]


@dataclass(frozen=True)
class Like:
    value: Node
    pattern: str
    escape: str | None


@dataclass(frozen=True)
class IsNull:
    value: Node


@dataclass(frozen=True)
class Not:
    condition: Node


@dataclass(frozen=True)
class And:
    conditions: tuple[Node, ...]


@dataclass(frozen=True)
class Or:
    conditions: tuple[Node, ...]


@dataclass(frozen=True)
class Arithmetic:
    operator: str
    left: Node
    right: Node


@dataclass(frozen=True)
class Negation:
    value: Node


Node = Literal | Name | Comparison | Between | In | Like | IsNull | Not | And | Or | Arithmetic | Negation
CONDITIONS = (Comparison, Between, In, Like, IsNull, Not, And, Or)


def parse(selector: str) -> Node:
    if len(selector.encode("utf-8", "surrogatepass")) > SELECTOR_BYTES_MAX:
        raise SelectorError(f"longer than {SELECTOR_BYTES_MAX} octets", selector, 0)
    return Parser(selector).whole()


class Parser:
    def __init__(self, selector: str) -> None:
        self.selector = selector
        self.tokens = tokens(selector)
        self.next = 0
        self.depth = 0

    # -- tokens

    @property
    def token(self) -> Token:
        return self.tokens[self.next]

    def take(self) -> Token:
        token = self.tokens[self.next]
        if token.kind != "end":
            self.next += 1
        return token

    def takes(self, kind: str, *values: str) -> bool:
        """Take the next token if it is that."""
        token = self.token
        if token.kind != kind or token.value not in values:
            return False
        self.next += 1
        return True

    def need(self, kind: str, value: str) -> None:
        if not self.takes(kind, value):
            raise self.error(f"'{value}' is missing")

    def error(self, problem: str, at: int | None = None) -> SelectorError:
        return SelectorError(problem, self.selector, self.token.at if at is None else at)

    # -- conditions

    def whole(self) -> Node:
        if self.token.kind == "end":
            raise self.error("it is empty")
        found = self.condition_here()
        if self.token.kind != "end":
            raise self.error(f"'{self.token.value}' was not expected")
        return found

    def condition_here(self) -> Node:
        """A condition and nothing else: 1 + 1 is none, nor is a text."""
        at = self.token.at
        found = self.disjunction()
        if not is_condition(found):
            raise self.error("a condition was expected, not a value", at)
        return found

    def disjunction(self) -> Node:
        return self.chain("OR", self.conjunction, Or)

    def conjunction(self) -> Node:
        return self.chain("AND", self.factor, And)

    def chain(self, keyword: str, part: object, kind: type[Or] | type[And]) -> Node:
        assert callable(part)
        at = self.token.at
        parts: list[Node] = [part()]
        while self.takes("keyword", keyword):
            if not is_condition(parts[-1]):
                raise self.error(f"{keyword} joins conditions, not values", at)
            at = self.token.at
            parts.append(part())
        if len(parts) == 1:
            return parts[0]
        if not is_condition(parts[-1]):
            raise self.error(f"{keyword} joins conditions, not values", at)
        return kind(tuple(parts))

    def factor(self) -> Node:
        if not self.takes("keyword", "NOT"):
            return self.predicate()
        at = self.token.at
        self.deeper()
        inner = self.factor()
        self.depth -= 1
        if not is_condition(inner):
            raise self.error("NOT stands before a condition, not a value", at)
        return Not(inner)

    def predicate(self) -> Node:
        at = self.token.at
        left = self.sum()
        token = self.token
        if token.kind == "operator" and token.value in COMPARISONS:
            self.take()
            right_at = self.token.at
            right = self.sum()
            self.check_comparison(str(token.value), left, at, right, right_at)
            return Comparison(str(token.value), left, right)
        if self.takes("keyword", "IS"):
            negated = self.takes("keyword", "NOT")
            self.need("keyword", "NULL")
            if not isinstance(left, Name):
                raise self.error("IS NULL asks about a name", at)
            return Not(IsNull(left)) if negated else IsNull(left)
        negated = self.takes("keyword", "NOT")
        if self.token.kind == "keyword" and self.token.value in ("BETWEEN", "IN", "LIKE"):
            found = self.word_predicate(str(self.take().value), left, at)
            return Not(found) if negated else found
        if negated:
            raise self.error("BETWEEN, IN or LIKE was expected after NOT")
        return left

    def word_predicate(self, word: str, left: Node, at: int) -> Node:
        if word == "BETWEEN":
            self.need_number(left, at)
            low_at = self.token.at
            low = self.sum()
            self.need("keyword", "AND")
            high_at = self.token.at
            high = self.sum()
            self.need_number(low, low_at)
            self.need_number(high, high_at)
            return Between(left, low, high)
        if not isinstance(left, Name):
            raise self.error(f"{word} asks about a name", at)
        if word == "LIKE":
            return self.like(left)
        self.need("operator", "(")
        among = {self.text()}
        while self.takes("operator", ","):
            among.add(self.text())
        self.need("operator", ")")
        return In(left, frozenset(among))

    def like(self, left: Name) -> Like:
        pattern = self.text()
        if not self.takes("keyword", "ESCAPE"):
            return Like(left, pattern, None)
        at = self.token.at
        escape = self.text()
        if len(escape) != 1:
            raise self.error("ESCAPE takes one character", at)
        position = pattern.find(escape)
        while position >= 0:
            if position + 1 == len(pattern):
                raise self.error("the pattern ends with its escape character", at)
            position = pattern.find(escape, position + 2)
        return Like(left, pattern, escape)

    def text(self) -> str:
        token = self.token
        if token.kind != "text":
            raise self.error("a text in single quotes was expected")
        self.take()
        return str(token.value)

    def check_comparison(self, operator: str, left: Node, left_at: int, right: Node, right_at: int) -> None:
        for side, at in ((left, left_at), (right, right_at)):
            if is_condition(side) and not isinstance(side, Name | Literal):
                raise self.error("a value was expected, not a condition", at)
            if operator not in ("=", "<>") and isinstance(side, Literal) and not is_number(side.value):
                raise self.error("only numbers are compared with < <= > >=", at)

    # -- values

    def need_number(self, node: Node, at: int) -> None:
        if isinstance(node, Literal) and not is_number(node.value) or isinstance(node, CONDITIONS):
            raise self.error("a number was expected", at)

    def sum(self) -> Node:
        return self.arithmetic(("+", "-"), self.product)

    def product(self) -> Node:
        return self.arithmetic(("*", "/"), self.unary)

    def arithmetic(self, operators: tuple[str, ...], part: object) -> Node:
        assert callable(part)
        at = self.token.at
        left: Node = part()
        count = 0
        while self.token.kind == "operator" and self.token.value in operators:
            operator = str(self.take().value)
            self.need_number(left, at)
            right_at = self.token.at
            right = part()
            self.need_number(right, right_at)
            left = Arithmetic(operator, left, right)
            count += 1
            self.deeper()  # the tree leans to the left as far as there are operators
        self.depth -= count
        return left

    def unary(self) -> Node:
        negative = False
        signed = False
        while self.token.kind == "operator" and self.token.value in ("+", "-"):
            signed = True
            negative ^= self.take().value == "-"
        at = self.token.at
        value = self.primary()
        if signed:
            self.need_number(value, at)
        if isinstance(value, Literal) and isinstance(value.value, int) and not isinstance(value.value, bool):
            number = -value.value if negative else value.value
            if not INT64_MIN <= number <= INT64_MAX:
                raise self.error("a number of more than 64 bits", at)
            return Literal(number)
        if isinstance(value, Literal) and isinstance(value.value, float):
            return Literal(-value.value if negative else value.value)
        return Negation(value) if negative else value

    def primary(self) -> Node:
        token = self.take()
        if token.kind in ("exact", "approximate", "text"):
            assert isinstance(token.value, str | int | float)
            return Literal(token.value)
        if token.kind == "keyword" and token.value in ("TRUE", "FALSE"):
            return Literal(token.value == "TRUE")
        if token.kind == "name":
            path = [str(token.value)]
            while self.takes("operator", "."):
                if self.token.kind not in ("name", "keyword"):
                    raise self.error("a name was expected after the dot")
                part = self.take()
                path.append(
                    self.selector[part.at : part.at + len(str(part.value))]
                    if part.kind == "keyword"
                    else str(part.value)
                )
            return Name(tuple(path))
        if token.kind == "operator" and token.value == "(":
            self.deeper()
            found = self.disjunction()
            self.need("operator", ")")
            self.depth -= 1
            return found
        if token.kind == "end":
            raise self.error("it ends where a value was expected", token.at)
        raise self.error(f"'{token.value}' stands where a value was expected", token.at)

    def deeper(self) -> None:
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise self.error(f"nested more than {DEPTH_MAX} deep")


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_condition(node: Node) -> bool:
    """A name may be a header that is true or false."""
    return isinstance(node, (*CONDITIONS, Name)) or isinstance(node, Literal) and isinstance(node.value, bool)
