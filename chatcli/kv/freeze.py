"""Freezes a cache object of any class into arrays and plain data, and thaws it again.

Objects, lists, tuples and dictionaries are followed to any depth, so that unknown classes can be saved and
restored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import mlx.core as mx

Arrays = dict[str, mx.array]
PLAIN = (type(None), bool, int, float, str)


def freeze(value: Any, arrays: Arrays, name: str, parents: tuple[Any, ...] = ()) -> Any:
    """Convert `value` to plain data, and add its arrays to `arrays` under names that begin with `name`.

    Plain values stay unchanged. Anything else becomes a dictionary with one item that names its kind:
    `array`, `list`, `tuple` (or a named tuple's class), `dict`, `object`, or `opaque` for a value kept by
    reference, which is of no kind above or one of its own `parents`. The result is valid JSON data unless it
    contains something opaque.
    """
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, mx.array):
        arrays[name] = copy_on_write(value)
        return {"array": name}
    if any(value is parent for parent in parents):
        return {"opaque": value}
    parents = (*parents, value)
    if isinstance(value, list | tuple):
        parts = [freeze(part, arrays, f"{name}.{index}", parents) for index, part in enumerate(value)]
        return {type(value).__name__: parts}
    if isinstance(value, dict):
        items = [
            [
                freeze(key, arrays, f"{name}.{index}.key", parents),
                freeze(part, arrays, f"{name}.{index}", parents),
            ]
            for index, (key, part) in enumerate(value.items())
        ]
        return {"dict": items}
    if held := attributes(value):
        return {"object": {key: freeze(part, arrays, f"{name}.{key}", parents) for key, part in held.items()}}
    return {"opaque": value}


def thaw(frozen: Any, arrays: Mapping[str, mx.array], into: Any) -> Any:
    """Restore a frozen value. Objects are restored in place: `into` must be of the same class.

    Raises `KeyError`, `TypeError`, `ValueError` or `AttributeError` if it is not.
    """
    if not isinstance(frozen, dict):
        return frozen
    ((kind, content),) = frozen.items()
    if kind == "opaque":
        return content
    if kind == "array":
        return copy_on_write(arrays[content])
    if kind == "object":
        before = attributes(into)
        for name in before.keys() - content.keys():
            delattr(into, name)
        for name, part in content.items():
            setattr(into, name, thaw(part, arrays, before.get(name)))
        return into
    if kind == "dict":
        before = into if isinstance(into, dict) else {}
        items = ((thaw(key, arrays, None), part) for key, part in content)
        return {key: thaw(part, arrays, before.get(key)) for key, part in items}
    fits = isinstance(into, list | tuple) and len(into) == len(content)
    parts = [
        thaw(part, arrays, before)
        for part, before in zip(content, into if fits else [None] * len(content), strict=True)
    ]
    if kind == "list":
        return parts
    if kind == "tuple":
        return tuple(parts)
    if type(into).__name__ != kind:
        raise TypeError(f"there is no {kind} to bring back")
    return getattr(into, "_make", type(into))(parts)


def arrays_in(value: Any, parents: tuple[Any, ...] = ()) -> Iterator[mx.array]:
    """Every array in a value, at any depth. Its own `parents` are not entered again."""
    if isinstance(value, mx.array):
        yield value
    elif not isinstance(value, PLAIN) and not any(value is parent for parent in parents):
        parts = value if isinstance(value, list | tuple | dict) else attributes(value)
        for part in parts.values() if isinstance(parts, dict) else parts:
            yield from arrays_in(part, (*parents, value))


def attributes(value: Any) -> dict[str, Any]:
    """An object's attributes, from its slots and its `__dict__`; none for a class or a callable."""
    if isinstance(value, type) or callable(value):
        return {}
    slots = [name for base in type(value).__mro__ for name in _slots(base)]
    held = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    return {**held, **getattr(value, "__dict__", {})}


def _slots(base: type) -> Iterator[str]:
    """The names of the slots that a class itself declares, with private ones mangled as Python does."""
    names = base.__dict__.get("__slots__", ())
    for name in [names] if isinstance(names, str) else names:
        if not name.startswith("__"):
            yield name
        elif not name.endswith("__"):
            yield f"_{base.__name__.lstrip('_')}{name}"


def copy_on_write(array: Any) -> Any:
    """A second array with the same data, unaffected by in-place updates of the first."""
    return array[...]
