"""TensorBoard's event files, written by hand.

TensorBoard's own writer takes a fifth of a second to import (and seconds where TensorFlow is installed), writes from a
thread that fails on its own, and we need three kinds of message. They are protocol buffers (`event.proto`,
`summary.proto`) in TFRecord frames.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping

FLOAT_MAX = 3.4028234663852886e38
"""What is larger (or not a number) does not fit into a message."""


def first_event() -> bytes:
    """What every event file begins with."""
    return _record(_event(_field(3, b"brain.Event:2")))


def restart_event(step: int) -> bytes:
    """What earlier events say of this step and of later ones no longer counts."""
    start = bytes([1 << 3, 1])
    return _record(_event(_step(step) + _field(7, start)))


def scalars_event(step: int, values: Mapping[str, float]) -> bytes:
    """Named numbers at a step; those that are not finite are left out."""
    finite = {name: value for name, value in values.items() if abs(value) <= FLOAT_MAX}
    messages = [_field(1, name.encode()) + struct.pack("<Bf", 2 << 3 | 5, value) for name, value in finite.items()]
    return _record(_event(_step(step) + _field(5, b"".join(_field(1, message) for message in messages))))


def _event(rest: bytes) -> bytes:
    return struct.pack("<Bd", 1 << 3 | 1, time.time()) + rest


def _step(step: int) -> bytes:
    return bytes([2 << 3]) + _number(step)


def _field(number: int, content: bytes) -> bytes:
    """A field of text, or of a message."""
    return bytes([number << 3 | 2]) + _number(len(content)) + content


def _number(value: int) -> bytes:
    """A whole number from 0: seven bits in each byte, the lowest first, and a sign that more follow."""
    digits = bytearray()
    while value >= 128:
        digits.append(value & 127 | 128)
        value >>= 7
    digits.append(value)
    return bytes(digits)


def _record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + _checksum(length) + data + _checksum(data)


def _checksum(data: bytes) -> bytes:
    """CRC-32C, masked as TFRecord wants it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _crc_of_byte(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


CRC = [_crc_of_byte(byte) for byte in range(256)]
