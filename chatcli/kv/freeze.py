"""A cache object's whole state, of any class, as arrays and plain data; refuses to know its meaning.

Objects inside objects, lists, tuples and dictionaries are followed to any depth, so that a class
which nobody has seen before can be put aside and brought back like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import mlx.core as mx

Arrays = dict[str, mx.array]
PLAIN = (type(None), bool, int, float, str)


def freeze(value: Any, arrays: Arrays, name: str, around: tuple[Any, ...] = ()) -> Any:
    """`value` with its arrays put aside in `arrays`, under names that begin with `name`.

    What comes back is fit for JSON unless something in it is of a type that can only be kept as it
    is, or is one of the objects `around` it. Each container is a dictionary of one item, which says
    what it was.
    """
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, mx.array):
        arrays[name] = handle(value)
        return {"array": name}
    if any(value is one for one in around):
        return {"itself": value}
    around = (*around, value)
    if isinstance(value, list | tuple):
        parts = [freeze(part, arrays, f"{name}.{at}", around) for at, part in enumerate(value)]
        return {type(value).__name__: parts}
    if isinstance(value, dict):
        pairs = [
            [
                freeze(part, arrays, f"{name}.{at}{end}", around)
                for part, end in zip(pair, (".key", ""), strict=True)
            ]
            for at, pair in enumerate(value.items())
        ]
        return {"dict": pairs}
    if inside := attributes(value):
        kept = {key: freeze(part, arrays, f"{name}.{key}", around) for key, part in inside.items()}
        return {"object": kept}
    return {"itself": value}


def thaw(kept: Any, arrays: Mapping[str, mx.array], into: Any) -> Any:
    """What `freeze` kept. Objects are brought back in place: `into` must be of the same class.

    Raises `KeyError`, `TypeError`, `ValueError` or `AttributeError` if it is not.
    """
    if not isinstance(kept, dict):
        return kept
    ((kind, inside),) = kept.items()
    if kind == "array":
        return handle(arrays[inside])
    if kind == "object":
        return _thaw_object(inside, arrays, into)
    if kind == "dict":
        before = into if isinstance(into, dict) else {}
        pairs = ((thaw(key, arrays, None), part) for key, part in inside)
        return {key: thaw(part, arrays, before.get(key)) for key, part in pairs}
    return inside if kind == "itself" else _thaw_sequence(kind, inside, arrays, into)


def _thaw_sequence(
    kind: str, inside: list[Any], arrays: Mapping[str, mx.array], into: Any
) -> list[Any] | tuple[Any, ...]:
    fits = isinstance(into, list | tuple) and len(into) == len(inside)
    olds = into if fits else [None] * len(inside)
    parts = [thaw(part, arrays, old) for part, old in zip(inside, olds, strict=True)]
    if kind == "list":
        return parts
    if kind == "tuple":
        return tuple(parts)
    if type(into).__name__ != kind:
        raise TypeError(f"there is no {kind} to bring back")
    made: list[Any] | tuple[Any, ...] = getattr(into, "_make", type(into))(parts)
    return made


def _thaw_object(inside: dict[str, Any], arrays: Mapping[str, mx.array], into: Any) -> Any:
    before = attributes(into)
    for name in before.keys() - inside.keys():
        delattr(into, name)
    for name, part in inside.items():
        setattr(into, name, thaw(part, arrays, before.get(name)))
    return into


def arrays_in(value: Any, around: tuple[Any, ...] = ()) -> Iterator[mx.array]:
    """Every array that a value holds, at any depth, but not again those of objects `around` it."""
    if isinstance(value, mx.array):
        yield value
    elif not isinstance(value, PLAIN) and not any(value is one for one in around):
        parts = value if isinstance(value, list | tuple | dict) else attributes(value)
        for part in parts.values() if isinstance(parts, dict) else parts:
            yield from arrays_in(part, (*around, value))


def attributes(value: Any) -> dict[str, Any]:
    """What an object holds, in its dictionary and its slots; nothing for what is no mere object."""
    if isinstance(value, type) or callable(value):
        return {}
    slots = [name for kind in type(value).__mro__ for name in _slots(kind)]
    held = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    return {**held, **getattr(value, "__dict__", {})}


def _slots(kind: type) -> Iterator[str]:
    """The attributes that a class itself has slots for, by the names that they go by."""
    names = kind.__dict__.get("__slots__", ())
    for name in [names] if isinstance(names, str) else names:
        if not name.startswith("__"):
            yield name
        elif not name.endswith("__"):
            yield f"_{kind.__name__.lstrip('_')}{name}"


def handle(array: Any) -> Any:
    """The same data under another name, which an update in place of the first does not reach."""
    return array[...]
