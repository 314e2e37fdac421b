"""Values that cross the wall of a sandbox, and the messages that carry them.

A message is a text frame with one JSON object, or, when it holds bytes or arrays, a binary frame: the length
of the JSON as a little-endian u32, the JSON, then the bytes one after another. In the JSON they stand as
`{"$bytes": [offset, size]}` and `{"$array": [offset, size], "dtype": "float64", "shape": [2, 3]}`; ordinary keys
that begin with `$` have it doubled. Nothing else crosses: no pickle, no code objects, no references.
"""

from __future__ import annotations

import array
import json
import math
import re
import struct
import sys
from typing import Any, NoReturn

from .errors import UnsendableValue

MAX_MESSAGE = 64 << 20
MAX_DEPTH = 60  # of a value; the 64 of a message include what is around it
_LEAST, _MOST = -(1 << 63), (1 << 64) - 1

# The formats of the buffer protocol (struct's letters, native sizes) and the dtypes that they are.
_DTYPES = {"?": "bool", "f": "float32", "d": "float64", "e": "float16"}
_SIGNED, _UNSIGNED = "bhilqn", "BHILQN"
_FORMATS = {"bool": "?", "float32": "f", "float64": "d", "int8": "b", "uint8": "B", "int16": "h", "uint16": "H",
            "int32": "i", "uint32": "I", "int64": "q", "uint64": "Q"}  # fmt: skip
_SIZES = {"float16": 2, **{name: struct.calcsize(letter) for name, letter in _FORMATS.items()}}

_encode_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_SPECIAL_KEY = re.compile(r'"\s*\$')


class _Packer:
    """Turns a value into what JSON has, with the bytes put aside."""

    def __init__(self) -> None:
        self.blobs: list[memoryview] = []
        self.size = 0

    def put_aside(self, view: memoryview) -> list[int]:
        place = [self.size, view.nbytes]
        self.blobs.append(view.cast("B") if view.nbytes else memoryview(b""))
        self.size += view.nbytes
        if self.size > MAX_MESSAGE:
            raise UnsendableValue(f"the value is larger than {MAX_MESSAGE >> 20} MiB, which is the most for a message")
        return place

    def pack(self, value: Any, depth: int = 0) -> Any:
        kind = type(value)
        if value is None or kind is bool or kind is str:
            return value
        if kind is int:
            if _LEAST <= value <= _MOST:
                return value
            raise UnsendableValue("an integer of more than 64 bits does not cross; send it as text")
        if kind is float:
            if math.isfinite(value):
                return value
            raise UnsendableValue("NaN and infinity do not cross; send them in an array or as text")
        if kind is bytes or kind is bytearray:
            return {"$bytes": self.put_aside(memoryview(value))}
        if depth >= MAX_DEPTH:
            raise UnsendableValue(f"the value is more than {MAX_DEPTH} levels deep, or contains itself")
        if kind is list or kind is tuple:
            return [self.pack(each, depth + 1) for each in value]
        if kind is dict:
            return {self._key(key): self.pack(each, depth + 1) for key, each in value.items()}
        return self._pack_other(value, depth)

    @staticmethod
    def _key(key: Any) -> str:
        if not isinstance(key, str):
            raise UnsendableValue(f"the keys of a dict must be texts to cross; {key!r} is {type(key).__name__}")
        return "$" + key if key.startswith("$") else key

    def _pack_other(self, value: Any, depth: int) -> Any:
        # Subclasses cross as what they are subclasses of: an enum of texts is a text.
        if isinstance(value, (bytes, bytearray)):
            return self.pack(bytes(value), depth)
        for base in (int, float, str):
            if isinstance(value, base):
                return self.pack(base(value), depth)
        if isinstance(value, (list, tuple)):
            return self.pack(list(value), depth)
        if isinstance(value, dict):
            return self.pack(dict(value), depth)
        if isinstance(value, (set, frozenset)):
            raise UnsendableValue("a set has no order and does not cross; send a sorted list of it")
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(value, numpy.generic):
            plain = value.item()  # a number of NumPy's is a number
            return _refuse(value) if isinstance(plain, numpy.generic) else self.pack(plain, depth)
        return self._pack_buffer(_native(value))

    def _pack_buffer(self, value: Any) -> Any:
        try:
            view = memoryview(value)
        except TypeError:
            _refuse(value)
        except (ValueError, BufferError) as problem:
            raise UnsendableValue(f"{_name_of(value)} does not cross: {problem}") from None
        dtype = _dtype_of(view)
        shape = list(view.shape or ())
        if view.nbytes > MAX_MESSAGE:  # a view can be larger than what it is a view of
            raise UnsendableValue(f"the value is larger than {MAX_MESSAGE >> 20} MiB, which is the most for a message")
        if not view.c_contiguous:
            view = memoryview(view.tobytes())
        return {"$array": self.put_aside(view), "dtype": dtype, "shape": shape}


# What to send instead of an array whose items are no numbers, by NumPy's letter for their kind.
_INSTEAD = {"c": "its .real and .imag", "M": '.astype("int64")', "m": '.astype("int64")', "O": ".tolist()",
            "V": "its fields, one by one", "S": ".tobytes()", "U": ".tolist()"}  # fmt: skip


def _name_of(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _refuse(value: Any) -> NoReturn:
    raise UnsendableValue(
        f"{_name_of(value)} does not cross: None, bool, int, float, str, bytes, arrays, and lists and dicts of these do"
    ) from None


def _native(value: Any) -> Any:
    """An array of NumPy's with its numbers as this machine has them; one of something else is refused by its name."""
    dtype = getattr(value, "dtype", None)
    kind = getattr(dtype, "kind", None)
    if not isinstance(kind, str):
        return value
    if kind in _INSTEAD:
        raise UnsendableValue(f"an array of {dtype} does not cross; numbers do: send {_INSTEAD[kind]}")
    return value if getattr(dtype, "isnative", True) else value.astype(value.dtype.newbyteorder("="))


def _dtype_of(view: memoryview) -> str:
    letter = view.format.lstrip("@=")
    if sys.byteorder == "little":
        letter = letter.lstrip("<")
    bits = view.itemsize * 8
    if letter in _DTYPES:
        return _DTYPES[letter]
    if len(letter) == 1 and letter in _SIGNED:
        return f"int{bits}"
    if len(letter) == 1 and letter in _UNSIGNED + "c":
        return f"uint{bits}"
    raise UnsendableValue(f"an array of format {view.format!r} does not cross; numbers do")


def encode(head: dict[str, Any], values: dict[str, Any] | None = None) -> str | bytes:
    """A message: `head` as it is, and in it `values`, which may be anything that crosses."""
    packer = _Packer()
    try:
        if values:
            head = {**head, **{name: packer.pack(value) for name, value in values.items()}}
        text = _encode_json(head)
        if not packer.blobs:
            if len(text) > MAX_MESSAGE:
                raise UnsendableValue(f"the value is larger than {MAX_MESSAGE >> 20} MiB")
            if not text.isascii():
                text.encode("utf-8")  # finds what is no text
            return text
        raw = text.encode("utf-8")
    except UnicodeEncodeError:
        raise UnsendableValue("a text with a lone surrogate does not cross; send bytes") from None
    if 4 + len(raw) + packer.size > MAX_MESSAGE:
        raise UnsendableValue(f"the value is larger than {MAX_MESSAGE >> 20} MiB, which is the most for a message")
    return b"".join([struct.pack("<I", len(raw)), raw, *packer.blobs])


# ---- Decoding. What comes from a sandbox was checked by the service, and is checked again. ---------------


class BrokenMessage(Exception):
    """A message is not one."""


def decode(frame: str | bytes) -> dict[str, Any]:
    """The message of a frame, with bytes and arrays in their places."""
    blobs = memoryview(b"")
    try:
        if isinstance(frame, str):
            head = json.loads(frame)
            special = _SPECIAL_KEY.search(frame) is not None
        else:
            (size,) = struct.unpack_from("<I", frame)
            if 4 + size > len(frame):
                raise BrokenMessage("a message is shorter than it says")
            view = memoryview(frame)
            head, blobs, special = json.loads(bytes(view[4 : 4 + size])), view[4 + size :], True
        if not isinstance(head, dict):
            raise BrokenMessage("a message is no object")
        return _unpack_dict(head, blobs) if special else head
    except (ValueError, struct.error, RecursionError) as problem:
        raise BrokenMessage(f"a message cannot be read: {problem}") from None


def _unpack(value: Any, blobs: memoryview) -> Any:
    if isinstance(value, dict):
        if "$bytes" in value:
            return bytes(_blob(value["$bytes"], blobs))
        if "$array" in value:
            return _array(value, blobs)
        return _unpack_dict(value, blobs)
    if isinstance(value, list):
        return [_unpack(each, blobs) for each in value]
    return value


def _unpack_dict(value: dict[str, Any], blobs: memoryview) -> dict[str, Any]:
    return {(key[1:] if key.startswith("$$") else key): _unpack(each, blobs) for key, each in value.items()}


def _blob(place: Any, blobs: memoryview) -> memoryview:
    if not isinstance(place, list) or len(place) != 2 or not all(type(each) is int for each in place):
        raise BrokenMessage("bytes have no place")
    offset, size = place
    if offset < 0 or size < 0 or offset + size > len(blobs):
        raise BrokenMessage("bytes lie outside of their message")
    return blobs[offset : offset + size]


def _array(value: dict[str, Any], blobs: memoryview) -> Any:
    raw, dtype, shape = _blob(value["$array"], blobs), value.get("dtype"), value.get("shape")
    if not isinstance(dtype, str) or dtype not in _SIZES:
        raise BrokenMessage(f"an array of unknown type: {dtype!r}")
    if not isinstance(shape, list) or not all(type(each) is int and each >= 0 for each in shape) or len(shape) > 32:
        raise BrokenMessage("an array without a shape")
    if math.prod(shape) * _SIZES[dtype] != len(raw):
        raise BrokenMessage("an array whose shape is not its size")
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        return numpy.ndarray(shape, dtype, bytearray(raw))
    if dtype == "float16":  # which only NumPy computes with
        wide = array.array("f", struct.unpack(f"={len(raw) // 2}e", raw))
        raw, dtype = memoryview(wide).cast("B"), "float32"
    if dtype != "bool" and (len(shape) == 1 or 0 in shape):
        plain = array.array(_FORMATS[dtype])
        plain.frombytes(raw)
        return plain
    view: Any = memoryview(bytearray(raw))
    return view.cast(_FORMATS[dtype]) if 0 in shape else view.cast(_FORMATS[dtype], shape)
