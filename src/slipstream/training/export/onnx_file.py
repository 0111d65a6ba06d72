"""A policy as an ONNX model, normaliser, memory and head included: observations in, actions out.

Batches come first, as is usual there: `observation` is `[batch, features]`, `action` `[batch, components]` (one choice:
`[batch]`), and `outputs` what the network said (logits, values, means). A memory comes in as `memory` (an LSTM's cell
as `memory_cell`) and goes out as `next_memory`; zeros begin an episode. The sampling variant takes the random numbers
as an input, `noise`: standard normal ones for real actions, uniform ones in 0 .. 1 for choices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from slipstream.spaces import Discrete
from slipstream.training.export.plan import Plan

OPSET = 17
MEMORIES = ("memory", "memory_cell")


def onnx_file(plan: Plan, *, sampling: bool, doc: str) -> bytes:
    """The bytes of the model.

    Args:
        plan: of the policy.
        sampling: draw actions as in training, by the input `noise`.
        doc: what the model says of itself.
    """
    try:
        import onnx
        from onnx import TensorProto, helper
    except ModuleNotFoundError as error:
        raise ValueError("--onnx needs onnx: pip install slipstream-rl[export]") from error
    graph = _Graph(plan)
    x = graph.through_steps()
    action = graph.head(x, sampling)
    graph.node("Identity", [x], "outputs")
    graph.node("Identity", [action], "action")

    def tensor(name: str, kind: int, *shape: Any) -> Any:
        return helper.make_tensor_value_info(name, kind, ["batch", *shape])

    real, whole = TensorProto.FLOAT, TensorProto.INT64
    inputs = [tensor("observation", real, plan.observation.size)]
    inputs += [tensor(name, real, n) for name, n in zip(MEMORIES, plan.memory)]
    if sampling:
        inputs.append(tensor("noise", real, plan.noises))
    kind = real if plan.head["noise"] == "normal" else whole
    shape = () if isinstance(plan.action, Discrete) else (plan.action.size,)
    outputs = [tensor("action", kind, *shape), tensor("outputs", real, plan.outputs)]
    outputs += [tensor(f"next_{name}", real, n) for name, n in zip(MEMORIES, plan.memory)]
    made = helper.make_graph(graph.nodes, "policy", inputs, outputs, graph.constants, doc_string=doc)
    model = helper.make_model(
        made, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="slipstream", ir_version=8
    )
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString()


class _Graph:
    """Nodes and constants, added one after another."""

    def __init__(self, plan: Plan):
        from onnx import helper, numpy_helper

        self._make, self._tensor = helper.make_node, numpy_helper.from_array
        self.plan, self.nodes, self.constants = plan, [], []
        self._count = 0
        self._known: dict[str, str] = {}

    def node(self, kind: str, inputs: list[str], output: str | None = None, **attributes: Any) -> str:
        """Add a node with one output; the output's name."""
        if output is None:
            self._count += 1
            output = f"{kind.lower()}_{self._count}"
        self.nodes.append(self._make(kind, inputs, [output], **attributes))
        return output

    def constant(self, name: str, value: Any, dtype: Any = np.float32) -> str:
        """An array of the model's own, once."""
        if name not in self._known:
            self._known[name] = name
            self.constants.append(self._tensor(np.asarray(value, dtype), name))
        return name

    def number(self, value: float) -> str:
        return self.constant(f"number_{value:g}".replace("-", "minus_"), value)

    def array(self, name: str) -> str:
        return self.constant(name, self.plan.arrays[name])

    def transposed(self, name: str) -> str:
        return self.constant(f"{name}_t", self.plan.arrays[name].T)

    def clip(self, x: str, low: float, high: float) -> str:
        return self.node("Clip", [x, self.number(low), self.number(high)])

    def part(self, x: str, start: int, end: int, axis: int = 1) -> str:
        bounds = [self.constant(f"index_{n}", [n], np.int64) for n in (start, end, axis)]
        return self.node("Slice", [x, *bounds])

    # From features to outputs.

    def through_steps(self) -> str:
        x = "observation"
        for step in self.plan.steps:
            x = getattr(self, step["op"])(step, x)
        return x

    def normalize(self, step: dict[str, Any], x: str) -> str:
        centred = self.node("Sub", [x, self.array(step["mean"])])
        scaled = self.node("Mul", [centred, self.array(step["precision"])])
        return self.clip(scaled, -step["limit"], step["limit"])

    def convolve(self, step: dict[str, Any], x: str) -> str:
        h, w, c = step["height"], step["width"], step["channels"]
        shape = self.constant(f"shape_{h}_{w}_{c}", [-1, h, w, c], np.int64)
        pictures = self.node("Transpose", [self.node("Reshape", [x, shape])], perm=[0, 3, 1, 2])
        if step["scale"] != 1.0:
            pictures = self.node("Mul", [pictures, self.constant("scale", step["scale"])])
        weight = self.constant(f"{step['weight']}_t", self.plan.arrays[step["weight"]].transpose(3, 2, 0, 1))
        strides = [step["stride"]] * 2
        out = self.node("Relu", [self.node("Conv", [pictures, weight, self.array(step["bias"])], strides=strides)])
        return self.node("Flatten", [self.node("Transpose", [out], perm=[0, 2, 3, 1])], axis=1)

    def recur(self, step: dict[str, Any], x: str) -> str:
        n = step["size"]
        inputs = self.node("Gemm", [x, self.array(step["weight_ih"]), self.array(step["bias"])], transB=1)
        hidden = self.node("MatMul", ["memory", self.transposed(step["weight_hh"])])

        def sigmoid(a: str) -> str:
            return self.node("Sigmoid", [a])

        if step["kind"] == "gru":
            i, h = ([self.part(g, k * n, (k + 1) * n) for k in range(3)] for g in (inputs, hidden))
            reset, keep = (sigmoid(self.node("Add", [i[k], h[k]])) for k in (0, 1))
            carried = self.node("Mul", [reset, self.node("Add", [h[2], self.array(step["bias_n"])])])
            new = self.node("Tanh", [self.node("Add", [i[2], carried])])
            kept = self.node("Mul", [keep, self.node("Sub", ["memory", new])])
            return self.node("Add", [new, kept], "next_memory")
        gates = self.node("Add", [inputs, hidden])
        i, f, g, o = (self.part(gates, k * n, (k + 1) * n) for k in range(4))
        old = self.node("Mul", [sigmoid(f), "memory_cell"])
        fresh = self.node("Mul", [sigmoid(i), self.node("Tanh", [g])])
        cell = self.node("Add", [old, fresh], "next_memory_cell")
        return self.node("Mul", [sigmoid(o), self.node("Tanh", [cell])], "next_memory")

    def dense(self, step: dict[str, Any], x: str) -> str:
        x = self.node("Gemm", [x, self.array(step["weight"]), self.array(step["bias"])], transB=1)
        if step["layer_norm"]:
            centred = self.node("Sub", [x, self.node("ReduceMean", [x], axes=[1])])
            squares = self.node("ReduceMean", [self.node("Mul", [centred, centred])], axes=[1])
            root = self.node("Sqrt", [self.node("Add", [squares, self.number(1e-5)])])
            x = self.node("Div", [centred, root])
        return self._activated(step["activation"], x)

    def _activated(self, name: str, x: str) -> str:
        if name == "none":
            return x
        if name == "swish":
            return self.node("Mul", [x, self.node("Sigmoid", [x])])
        return self.node({"tanh": "Tanh", "relu": "Relu", "elu": "Elu"}[name], [x])

    # From outputs to actions.

    def head(self, x: str, sampling: bool) -> str:
        return getattr(self, f"_{self.plan.head['kind']}")(self.plan.head, x, sampling)

    def _in_bounds(self, head: dict[str, Any], x: str) -> str:
        scaled = self.node("Add", [self.node("Mul", [x, self.array(head["half"])]), self.array(head["middle"])])
        return self.node("Min", [self.node("Max", [scaled, self.array(head["low"])]), self.array(head["high"])])

    def _gaussian(self, head: dict[str, Any], mean: str, sampling: bool) -> str:
        if sampling:
            mean = self.node("Add", [mean, self.node("Mul", ["noise", self.array(head["std"])])])
        return self._in_bounds(head, mean)

    def _squashed(self, head: dict[str, Any], x: str, sampling: bool) -> str:
        n = self.plan.action.size
        mean = self.part(x, 0, n)
        if sampling:
            raw = self.node("Add", [self.part(x, n, 2 * n), self.number(head["shift"])])
            std = self.node("Exp", [self.clip(raw, head["lowest"], head["highest"])])
            mean = self.node("Add", [mean, self.node("Mul", [std, "noise"])])
        return self._in_bounds(head, self.node("Tanh", [mean]))

    def _noisy(self, head: dict[str, Any], x: str, sampling: bool) -> str:
        action = self.node("Tanh", [x])
        if sampling:
            noise = self.node("Mul", ["noise", self.constant("noise_scale", head["scale"])])
            action = self.clip(self.node("Add", [action, noise]), -1.0, 1.0)
        return self._in_bounds(head, action)

    def _categorical(self, head: dict[str, Any], logits: str, sampling: bool) -> str:
        return self._choose(head["choices"], logits, "noise" if sampling else None, 0)

    def _values(self, head: dict[str, Any], x: str, sampling: bool) -> str:
        choices = head["choices"]
        worth = self._worth(head, x)
        best = self._choose(choices, worth, None, 0)
        if not sampling:
            return best
        even = self.node("Mul", [worth, self.number(0.0)])
        anything = self._choose(choices, even, "noise", 1)
        whether = self.node("Less", [self.part("noise", 0, 1), self.constant("epsilon", head["epsilon"])])
        if isinstance(self.plan.action, Discrete):
            whether = self._squeezed(whether)
        return self.node("Where", [whether, anything, best])

    def _worth(self, head: dict[str, Any], x: str) -> str:
        """What every choice is worth, `[batch, choices]`."""
        choices, atoms = head["choices"], head["atoms"]
        width, total = atoms or 1, sum(head["choices"])
        rows = self.node("Reshape", [x, self.constant(f"rows_{width}", [0, -1, width], np.int64)])
        worth = self.part(rows, 0, total)
        if head["dueling"]:
            parts, start = [], 0
            for i, n in enumerate(choices):
                part = self.part(worth, start, start + n)
                state = self.part(rows, total + i, total + i + 1)
                centred = self.node("Sub", [part, self.node("ReduceMean", [part], axes=[1])])
                parts.append(self.node("Add", [state, centred]))
                start += n
            worth = self.node("Concat", parts, axis=1)
        if atoms:
            likely = self.node("Softmax", [worth], axis=2)
            worth = self.node("Mul", [likely, self.array("returns")])
        last = self.constant("axis_2", [2], np.int64)
        return self.node("ReduceSum", [worth, last], keepdims=0)

    def _choose(self, choices: list[int], logits: str, noise: str | None, first: int) -> str:
        """The best choice of each component, or one drawn by the noise from column `first` on."""
        chosen, start = [], 0
        for i, n in enumerate(choices):
            part = self.part(logits, start, start + n)
            start += n
            if noise is None:
                chosen.append(self.node("ArgMax", [part], axis=1, keepdims=1))
                continue
            # How many choices have a cumulated probability that is not above the number drawn.
            cumulated = self.node(
                "CumSum", [self.node("Softmax", [part], axis=1), self.constant("axis_1", 1, np.int64)]
            )
            total = self.part(cumulated, n - 1, n)
            drawn = self.node("Mul", [self.part(noise, first + i, first + i + 1), total])
            most = self.node("Mul", [total, self.constant("below_1", 1.0 - 2.0**-22)])
            passed = self.node("LessOrEqual", [cumulated, self.node("Min", [drawn, most])])
            count = self.node("Cast", [passed], to=7)
            chosen.append(self.node("ReduceSum", [count, self.constant("axes_1", [1], np.int64)], keepdims=1))
        joined = chosen[0] if len(chosen) == 1 else self.node("Concat", chosen, axis=1)
        return self._squeezed(joined) if isinstance(self.plan.action, Discrete) else joined

    def _squeezed(self, x: str) -> str:
        return self.node("Squeeze", [x, self.constant("axes_1", [1], np.int64)])
