"""The newest weights, from the one process that learns them to all that act by them.

There are two copies. The writer fills the one that is not the newest and then says that it is, so a reader is in
nobody's way and nobody is in its; should the writer come round to a copy while it is being read, the reader notices
and reads again. A reader never sees half a write.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from slipstream.training.pipeline.blocks import Block, fence

NONE = -1
"""The version when nothing has been published yet."""


class Weights:
    """A versioned set of named arrays, written by one process and read by any number."""

    def __init__(self, block: Block):
        self._block = block
        self._state = block["state"]
        self._begun = block["begun"]
        names = [name.removeprefix("0/") for name in block.arrays if name.startswith("0/")]
        self._copies = [{name: block[f"{copy}/{name}"] for name in names} for copy in (0, 1)]

    @staticmethod
    def like(arrays: Mapping[str, np.ndarray]) -> Weights:
        """Room for arrays such as these; nothing has been published."""
        copies = {f"{copy}/{name}": (a.shape, a.dtype) for copy in (0, 1) for name, a in arrays.items()}
        # state: twice the version of the newest, and which copy it is, in one number: a writer may die between two.
        # begun: which version each copy holds, or is about to.
        block = Block({"state": ((1,), np.int64), "begun": ((2,), np.int64), **copies})
        block["state"][:] = 2 * NONE
        block["begun"][:] = NONE
        return Weights(block)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Weights:
        return Weights(Block.from_json(data))

    def to_json(self) -> dict[str, Any]:
        return self._block.to_json()

    @property
    def descriptor(self) -> int:
        return self._block.descriptor

    @property
    def version(self) -> int:
        """The newest that has been published; -1: none yet."""
        return int(self._state[0]) // 2

    def empty(self) -> dict[str, np.ndarray]:
        """Memory of one's own to read into."""
        return {name: np.zeros_like(array) for name, array in self._copies[0].items()}

    def publish(self, arrays: Mapping[str, np.ndarray], version: int) -> None:
        """Make these the newest. Versions grow."""
        newest, copy = divmod(int(self._state[0]), 2)
        if version <= newest:
            raise ValueError(f"Version {version} of the weights comes after {newest}.")
        target = 1 - copy
        self._begun[target] = version
        fence()
        for name, place in self._copies[target].items():
            np.copyto(place, arrays[name])
        fence()
        self._state[0] = 2 * version + target

    def read(self, into: Mapping[str, np.ndarray]) -> int:
        """Copy the newest weights and return their version; -1 (and nothing is copied) if there are none."""
        while True:
            version, copy = divmod(int(self._state[0]), 2)
            if version == NONE:
                return NONE
            fence()
            if self._begun[copy] == version:
                fence()
                for name, place in self._copies[copy].items():
                    np.copyto(into[name], place)
                fence()
                if self._begun[copy] == version:
                    return version

    def close(self) -> None:
        self._block.close()
