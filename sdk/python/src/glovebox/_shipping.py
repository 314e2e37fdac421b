"""Functions that are sent into a sandbox by their source.

What is sent is the text of the function and nothing else: no module around it, no values it captured, no
decorators. So a function can be sent when it stands on its own: it imports what it needs inside, and takes the
rest as arguments. Anything that would run in there with another meaning than here is refused with the reason.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import symtable
import textwrap
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .errors import NotShippable


@dataclass(frozen=True)
class Shipment:
    """A function's source, the name it defines, and the arguments that go before the caller's."""

    source: str
    name: str
    first: tuple[Any, ...] = ()


def ship(function: Callable[..., Any]) -> Shipment:
    """The function in the form in which it is sent; `NotShippable` with the reason when it has none."""
    plain = inspect.unwrap(function)
    first: tuple[Any, ...] = ()
    if isinstance(plain, (staticmethod, classmethod)):
        plain = plain.__func__
    if isinstance(plain, types.MethodType):
        plain, first = _method(plain)
    if not isinstance(plain, types.FunctionType):
        raise NotShippable(f"{function!r} is no function that was written in Python")
    if plain.__name__ == "<lambda>":
        raise NotShippable("a lambda has no name to be called by: write it as a function")
    tree = _parse(plain)
    definition = _definition(tree, plain)
    _check_captured(plain)
    definition.decorator_list = []
    _plain_signature(definition)
    source = ast.unparse(definition)
    _check_globals(plain, source)
    return Shipment(source + "\n", definition.name, first)


def _method(method: types.MethodType) -> tuple[Any, tuple[Any, ...]]:
    """A method is sent as a function of what it is bound to, which therefore has to cross, or not to matter."""
    function, owner = method.__func__, method.__self__
    if isinstance(owner, (bool, int, float, str, bytes, list, tuple, dict, types.NoneType)):
        return function, (owner,)
    if isinstance(function, types.FunctionType) and not _uses_first_argument(function):
        return function, (None,)
    what = f"the class {owner.__qualname__}" if isinstance(owner, type) else f"an object of {type(owner).__qualname__}"
    raise NotShippable(
        f"{method.__qualname__} uses {what}, which does not cross: pass what it needs as arguments to a function"
    )


def _uses_first_argument(function: types.FunctionType) -> bool:
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    if not names:
        return True
    table = symtable.symtable(ast.unparse(_parse(function)), "<shipped>", "exec")
    scope = next(each for each in table.get_children() if each.get_name() == function.__name__)
    return scope.lookup(names[0]).is_referenced() or names[0] in function.__code__.co_cellvars


def _parse(function: types.FunctionType) -> ast.Module:
    try:
        text = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        raise NotShippable(
            f"the source of {function.__qualname__} is not there: it was typed into a prompt, made by exec(), or "
            "comes without its file"
        ) from None
    try:
        return ast.parse(text)
    except SyntaxError:
        raise NotShippable(
            f"the source of {function.__qualname__} does not stand on its own: put it on lines of its own"
        ) from None


def _definition(tree: ast.Module, function: types.FunctionType) -> ast.FunctionDef | ast.AsyncFunctionDef:
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == function.__name__:
            return node
    raise NotShippable(f"the source of {function.__qualname__} is not the definition of a function of that name")


def _plain_signature(definition: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    """Without annotations, whose names are this side's."""
    definition.returns = None
    arguments = definition.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    for argument in [*every, *filter(None, [arguments.vararg, arguments.kwarg])]:
        argument.annotation = None
    for default in [*arguments.defaults, *filter(None, arguments.kw_defaults)]:
        try:
            ast.literal_eval(default)
        except ValueError:
            raise NotShippable(
                f"a default of {definition.name}() is computed ({ast.unparse(default)}): only plain values can be sent"
            ) from None


def _check_captured(function: types.FunctionType) -> None:
    names = [name for name in function.__code__.co_freevars if name != function.__name__]
    if names:
        raise NotShippable(
            f"{function.__qualname__} has captured {', '.join(names)} from around it: pass them as arguments"
        )


def _check_globals(function: types.FunctionType, source: str) -> None:
    """Refuses what would be a NameError in there, here."""
    guest = {"post", "recv", "log", "metric", "request", "caps", function.__name__}
    used = _global_names(symtable.symtable(source, "<shipped>", "exec"))
    missing = sorted(name for name in used - guest if not hasattr(builtins, name))
    if missing:
        known = [name for name in missing if name in function.__globals__]
        hint = "import modules inside of the function, and pass values as arguments"
        raise NotShippable(f"{function.__qualname__} uses {', '.join(known or missing)} from its module: {hint}")


def _global_names(table: symtable.SymbolTable) -> set[str]:
    names: set[str] = set()
    for child in table.get_children():
        names |= {each.get_name() for each in child.get_symbols() if each.is_global() and each.is_referenced()}
        names |= _global_names(child)
    return names
