"""A policy as one Python file: the source of `numpy_runtime`, with the plan and the weights written into it."""

from __future__ import annotations

import base64
import inspect
import json
import zlib

import numpy as np

from slipstream.training.export import numpy_runtime
from slipstream.training.export.plan import Plan

ENDING = '''

def _unpacked(texts):
    """Arrays from their shapes and compressed bytes."""
    import base64
    import zlib

    return {n: np.frombuffer(zlib.decompress(base64.b85decode(t)), "<f4").reshape(s) for n, (s, t) in texts.items()}


_policy = NumpyPolicy(PLAN, _unpacked(ARRAYS))
act, reset, seed = _policy.act, _policy.reset, _policy.seed
'''


def _packed(array: np.ndarray) -> str:
    return base64.b85encode(zlib.compress(array.astype("<f4").tobytes(), 9)).decode()


def numpy_file(plan: Plan) -> str:
    """The text of the file."""
    arrays = [f"    {name!r}: ({list(a.shape)}, {_packed(a)!r}),\n" for name, a in plan.arrays.items()]
    data = json.loads(json.dumps(plan.to_json()))  # plain lists and numbers
    return inspect.getsource(numpy_runtime) + f"\n\nPLAN = {data!r}\n\nARRAYS = {{\n" + "".join(arrays) + "}\n" + ENDING
