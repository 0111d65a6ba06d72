"""A user's own network: an ordinary Equinox module of one agent, run for all lanes at once."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax


class PerLane(eqx.Module):
    """`[inputs, lanes]` to `[outputs, lanes]` by a module that maps `[inputs]` to `[outputs]`.

    Modules often hold functions (activations) among their weights. They are set apart, so that what learns and is
    saved is arrays alone.
    """

    weights: Any
    rest: Any = eqx.field(static=True)

    def __init__(self, module: Any):
        self.weights, self.rest = eqx.partition(module, eqx.is_inexact_array)

    def __call__(self, x: jax.Array) -> jax.Array:
        module = eqx.combine(self.weights, self.rest)
        return jax.vmap(module, in_axes=-1, out_axes=-1)(x)


def network_of(module_class: Any) -> Any:
    """How networks are made from a user's class or function: `module_class(inputs, outputs, *, key)`."""

    def make(inputs: int, outputs: int, output_scale: float, *, key: jax.Array) -> PerLane:
        module = module_class(inputs, outputs, key=key)
        if not callable(module):
            raise ValueError(f"A network must be callable, but {module_class!r} made {type(module).__name__}.")
        made = PerLane(module)
        shape = jax.eval_shape(made, jax.ShapeDtypeStruct((inputs, 1), "float32")).shape
        if shape != (outputs, 1):
            raise ValueError(
                f"A network of {getattr(module_class, '__name__', module_class)} must map [{inputs}] to [{outputs}] "
                f"numbers, but it returns {list(shape[:-1])}."
            )
        return made

    return make
