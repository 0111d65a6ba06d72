"""Sealed files: what comes out is what went in, or nothing."""

import pytest

from slipstream.runs.sealed import seal, unseal

CONTENT = {"number": 3, "score": -1.5e-9, "text": "a \u00e4 \n", "list": [1, [2.0, None, True]], "deep": {"x": {}}}


def test_what_was_sealed_comes_out_again():
    assert unseal(seal(CONTENT)) == CONTENT
    not_finite = unseal(seal({"a": float("nan"), "b": float("-inf")}))
    assert not_finite["a"] != not_finite["a"] and not_finite["b"] == -float("inf")


def test_every_single_flipped_bit_is_noticed():
    data = seal(CONTENT)
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ValueError):
            unseal(bytes(flipped))


def test_every_cut_is_noticed():
    data = seal(CONTENT)
    for length in range(len(data)):
        with pytest.raises(ValueError):
            unseal(data[:length])


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"3", b'{"checksum": ""}', b"\xff\xfe\x80"])
def test_what_is_not_sealed_is_refused(data):
    with pytest.raises(ValueError):
        unseal(data)
