"""Mutants of a module: its source with one node of the syntax tree changed.

Left alone is what no test can be expected to hold: texts and docstrings, annotations and aliases of types, decorators,
what is raised, and the `help`, `unit` and `static` of settings.
"""

import ast
import copy
import dataclasses
import hashlib
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator

ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
PAIRS = (  # functions and methods that take each other's arguments
    ("minimum", "maximum"),
    ("fmin", "fmax"),
    ("min", "max"),
    ("argmin", "argmax"),
    ("any", "all"),
    ("sum", "mean"),
    ("zeros", "ones"),
    ("zeros_like", "ones_like"),
    ("floor", "ceil"),
    ("triu", "tril"),
)
PARTNERS = dict(PAIRS) | {second: first for first, second in PAIRS}
WRAPPERS = {"abs", "sqrt", "square", "exp", "log", "cumsum", "sort", "stop_gradient"}
CHOICES = {"axis", "keepdims", "where", "initial", "side", "lower", "trans", "replace"}
NO_BEHAVIOUR = {"help", "unit", "static"}  # of the keywords of a call
UNTOUCHED = (ast.Raise, ast.JoinedStr, ast.Import, ast.ImportFrom)
HEAD = ("annotation", "returns", "decorator_list", "msg", "bases")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SCOPES = (*FUNCTIONS, ast.ClassDef)
SIMPLE = (ast.Name, ast.Attribute, ast.Call)


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One change at one place of one file."""

    file: str  # below the root of the repository
    line: int  # of the changed node
    lines: tuple[int, int] | None  # first and last that run it; None: any of the file
    before: str  # the lines of the node, as they are
    after: str  # and as they would be
    nth: int  # of the equal changes in this file, from 0
    start: int  # bytes of the source that are replaced
    end: int
    text: str  # what takes their place

    @property
    def name(self) -> str:
        """What is changed where, in words."""
        return f"{self.file}:{self.line}: {self.before}  ->  {self.after}"

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What stays when other lines of the file move."""
        return self.file, self.before, self.after, self.nth

    def rank(self, seed: int) -> str:
        """Returns a random number of the mutant, which no other change of the code moves."""
        return hashlib.sha256(repr((seed, *self.key)).encode()).hexdigest()

    def undone(self, source: str) -> "Mutant":
        """Returns a mutant that changes nothing, at the same place of the same source."""
        text = source.encode()[self.start : self.end].decode()
        return dataclasses.replace(self, text=text)

    def applied(self, source: str) -> str:
        """Returns the source of the mutated module."""
        encoded = source.encode()
        return (
            encoded[: self.start] + self.text.encode() + encoded[self.end :]
        ).decode()


@dataclasses.dataclass(frozen=True)
class _Place:
    node: ast.AST
    lines: tuple[int, int] | None
    negated: bool = False  # whether to negate it, and nothing else


def mutants_of(file: str, source: str) -> list[Mutant]:
    """Returns every mutant of a module, in the order of its text."""
    encoded = source.encode()
    lengths = map(len, encoded.splitlines(keepends=True))
    starts = list(itertools.accumulate(lengths, initial=0))
    found, seen = [], Counter[tuple[str, str]]()
    for place in _places(ast.parse(source), None):
        for text in _texts(place):
            mutant = _mutant(file, encoded, starts, place, text)
            nth = seen[mutant.before, mutant.after]
            seen[mutant.before, mutant.after] += 1
            found.append(dataclasses.replace(mutant, nth=nth))
    return found


def drawn(mutants: Iterable[Mutant], count: int, seed: int) -> list[Mutant]:
    """Returns a random sample in random order; a larger one begins with a smaller one."""
    return sorted(mutants, key=lambda mutant: mutant.rank(seed))[:count]


def _mutant(
    file: str, source: bytes, starts: list[int], place: _Place, text: str
) -> Mutant:
    """Returns a mutant without its number; `starts` are the bytes at which the lines of the source begin."""
    node = place.node
    assert isinstance(node, ast.expr | ast.stmt)
    last = node.end_lineno or node.lineno
    start = starts[node.lineno - 1] + node.col_offset
    end = starts[last - 1] + (node.end_col_offset or 0)
    head, tail = source[starts[node.lineno - 1] : start], source[end : starts[last]]
    return Mutant(
        file=file,
        line=node.lineno,
        lines=place.lines,
        before=_squeezed(head + source[start:end] + tail),
        after=_squeezed(head + text.encode() + tail),
        nth=0,
        start=start,
        end=end,
        text=text,
    )


def _squeezed(text: bytes) -> str:
    return " ".join(text.decode().split())


def _places(node: ast.AST, lines: tuple[int, int] | None) -> Iterator[_Place]:
    """Yields what may be changed, with the lines that run it."""
    if isinstance(node, UNTOUCHED) or _is_alias(node, lines):
        return
    if isinstance(node, ast.keyword) and node.arg in NO_BEHAVIOUR:
        return
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    yield _Place(node, lines)
    if isinstance(node, ast.If | ast.While) and isinstance(node.test, SIMPLE):
        yield _Place(node.test, _lines(node, "test", node.test, lines), negated=True)
    for name, value in ast.iter_fields(node):
        if name in HEAD:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _places(child, _lines(node, name, child, lines))


def _lines(
    parent: ast.AST, field: str, child: ast.AST, lines: tuple[int, int] | None
) -> tuple[int, int] | None:
    """Returns which lines run a child; what is evaluated at import counts for the class or function that it belongs to."""
    if isinstance(parent, FUNCTIONS) and field == "args":
        return parent.body[0].lineno, parent.end_lineno or parent.lineno
    if isinstance(parent, ast.ClassDef):
        methods = [one for one in parent.body if isinstance(one, FUNCTIONS)]
        lines = (parent.lineno, parent.end_lineno or 0) if methods else None
    inside = isinstance(parent, FUNCTIONS) or lines is not None
    if not inside or not isinstance(child, ast.stmt) or isinstance(child, SCOPES):
        return lines
    if isinstance(parent, ast.ClassDef):
        return lines
    body = getattr(child, "body", None)  # of a compound statement only the head
    last = body[0].lineno - 1 if body else child.end_lineno or child.lineno
    return child.lineno, max(child.lineno, last)


def _is_alias(node: ast.AST, lines: tuple[int, int] | None) -> bool:
    """Whether a statement of a module names a type."""
    return (
        lines is None
        and isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Subscript | ast.BinOp)
        and isinstance(getattr(node.value, "op", ast.BitOr()), ast.BitOr)
    )


def _texts(place: _Place) -> Iterator[str]:
    """Yields what may take the place of a place."""
    if not place.negated:
        yield from _changes(place.node)
    elif isinstance(place.node, ast.expr):
        yield _text(ast.UnaryOp(ast.Not(), place.node))


def _changes(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.BinOp(left, operator, right) if type(operator) in ARITHMETIC:
            yield _text(ast.BinOp(left, ARITHMETIC[type(operator)](), right))
        case ast.AugAssign(target, operator, value) if type(operator) in ARITHMETIC:
            yield ast.unparse(
                ast.AugAssign(target, ARITHMETIC[type(operator)](), value)
            )
        case ast.Compare(left, [operator], rest):
            for other in COMPARISONS[type(operator)]:
                yield _text(ast.Compare(left, [other()], rest))
        case ast.BoolOp(operator, values):
            other = ast.Or() if isinstance(operator, ast.And) else ast.And()
            yield _text(ast.BoolOp(other, values))
        case ast.UnaryOp(_, operand):
            yield _text(operand)
        case ast.IfExp(test, body, orelse):
            yield _text(ast.IfExp(test, orelse, body))
        case ast.Constant(value) if isinstance(value, int | float):
            yield _other_constant(value)
        case ast.Call():
            yield from _other_calls(node)


def _other_constant(value: float) -> str:
    if isinstance(value, bool):
        return repr(not value)
    if value == 0:
        return repr(type(value)(1))
    return repr(2 * value)


def _other_calls(call: ast.Call) -> Iterator[str]:
    """Yields calls of a partner, with swapped or fewer arguments, or none at all."""
    function = call.func
    name = getattr(function, "attr", getattr(function, "id", ""))
    if name in PARTNERS:
        other = copy.deepcopy(function)
        setattr(
            other, "attr" if isinstance(other, ast.Attribute) else "id", PARTNERS[name]
        )
        yield _text(ast.Call(other, call.args, call.keywords))
    if name in WRAPPERS and len(call.args) == 1:
        yield _text(call.args[0])
    if name == "where" and len(call.args) == 3:
        condition, yes, no = call.args
        yield _text(ast.Call(function, [condition, no, yes], call.keywords))
    match function:  # x.at[i].set(y)
        case ast.Attribute(ast.Subscript(ast.Attribute(array, "at"), _), _):
            yield _text(array)
    for keyword in call.keywords:
        if keyword.arg in CHOICES:
            kept = [one for one in call.keywords if one is not keyword]
            yield _text(ast.Call(function, call.args, kept))


def _text(node: ast.expr) -> str:
    """Returns the source of an expression, which binds as tightly as any."""
    text = ast.unparse(node)
    simple = isinstance(node, (*SIMPLE, ast.Constant))
    return text if simple else f"({text})"
