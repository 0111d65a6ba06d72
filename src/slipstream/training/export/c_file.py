"""A policy as C: a header and a source of C99 that need nothing but the C library's own mathematics."""

from __future__ import annotations

from typing import Any

import numpy as np

from slipstream.training.export.plan import Plan

PER_LINE = 8
"""Numbers in a line of an array."""

HELPERS = r"""
static void dense(const float *weight, const float *bias, int outputs, int inputs, const float *x, float *y) {
    for (int i = 0; i < outputs; i++) {
        float sum = bias ? bias[i] : 0.0f;
        for (int j = 0; j < inputs; j++) sum += weight[i * inputs + j] * x[j];
        y[i] = sum;
    }
}
"""

PIECES = {
    "within": "static float within(float x, float low, float high) { return x < low ? low : x > high ? high : x; }\n",
    "sigmoid": "static float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }\n",
    "layer_norm": r"""static void standardize(float *x, int n) {
    float mean = 0.0f, square = 0.0f;
    for (int i = 0; i < n; i++) mean += x[i] / n;
    for (int i = 0; i < n; i++) { x[i] -= mean; square += x[i] * x[i] / n; }
    for (int i = 0; i < n; i++) x[i] /= sqrtf(square + 1e-5f);
}
""",
    "best": r"""static int best(const float *x, const unsigned char *allowed, int n) {
    int found = -1;
    for (int i = 0; i < n; i++)
        if ((!allowed || allowed[i]) && (found < 0 || x[i] > x[found])) found = i;
    return found < 0 ? 0 : found;
}
""",
    "draw": r"""/* The choice whose share of the weights a number in 0 .. 1 falls into. */
static int draw(const float *logit, const unsigned char *allowed, int n, float uniform) {
    float top = -3.4e38f, total = 0.0f, sum = 0.0f;
    for (int i = 0; i < n; i++)
        if ((!allowed || allowed[i]) && logit[i] > top) top = logit[i];
    for (int i = 0; i < n; i++)
        if (!allowed || allowed[i]) total += expf(logit[i] - top);
    float point = fminf(uniform * total, total * (1.0f - 2.3841858e-07f));
    int last = 0;
    for (int i = 0; i < n; i++) {
        if (allowed && !allowed[i]) continue;
        last = i;
        sum += expf(logit[i] - top);
        if (sum > point) return i;
    }
    return last;
}
""",
    "convolve": r"""/* A convolution without padding, and a ReLU; the channels of a pixel lie side by side. */
static void convolve(const float *weight, const float *bias, int width, int channels, int kernel, int stride,
                     int rows, int columns, int outputs, float scale, const float *x, float *y) {
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < columns; c++)
            for (int o = 0; o < outputs; o++) {
                float sum = 0.0f;
                for (int i = 0; i < kernel; i++)
                    for (int j = 0; j < kernel; j++)
                        for (int k = 0; k < channels; k++)
                            sum += x[((r * stride + i) * width + c * stride + j) * channels + k] *
                                   weight[((i * kernel + j) * channels + k) * outputs + o];
                sum = sum * scale + bias[o];
                y[(r * columns + c) * outputs + o] = sum > 0.0f ? sum : 0.0f;
            }
}
""",
}
"""What only some policies need."""

ACTIVATIONS = {
    "tanh": "tanhf({x})",
    "relu": "({x} > 0.0f ? {x} : 0.0f)",
    "swish": "({x} * sigmoid({x}))",
    "elu": "({x} < 0.0f ? expm1f({x}) : {x})",
}


def c_files(plan: Plan, doc: str, name: str = "policy") -> tuple[str, str]:
    """The texts of the header and of the source.

    Args:
        plan: of the policy.
        doc: what the files say of themselves, one line.
        name: what the functions begin with.
    """
    writer = _Source(plan, name)
    body = writer.body()
    source = [
        f"/* {doc} */",
        f'#include "{name}.h"',
        "",
        "#include <math.h>",
        *(_array(n, a) for n, a in plan.arrays.items()),
        HELPERS,
        *(PIECES[piece] for piece in PIECES if piece in writer.pieces),
        f"void {name}_reset(float *memory) {{",
        f"    for (int i = 0; i < {name.upper()}_MEMORY; i++) memory[i] = 0.0f;",
        "}",
        "",
        f"{_signature(plan, name)} {{",
        *writer.rooms,
        *body,
        "    (void)memory; (void)allowed; (void)noise;",
        "}",
        "",
    ]
    return _header(plan, doc, name), "\n".join(source)


def _kind(plan: Plan) -> str:
    return "float" if plan.head["noise"] == "normal" else "int"


def _signature(plan: Plan, name: str) -> str:
    return (
        f"void {name}_act(const float *observation, float *memory, const float *noise, const unsigned char *allowed, "
        f"{_kind(plan)} *action)"
    )


def _header(plan: Plan, doc: str, name: str) -> str:
    big = name.upper()
    choices = sum(plan.head.get("choices", ()))
    drawn = "standard normal numbers" if plan.head["noise"] == "normal" else "numbers in 0 .. 1"
    return f"""/* {doc} */
#ifndef {big}_H
#define {big}_H

#define {big}_OBSERVATION {plan.observation.size}
#define {big}_ACTION {plan.action.size}
#define {big}_CHOICES {choices}
#define {big}_NOISE {plan.noises}
#define {big}_MEMORY {sum(plan.memory)}

#ifdef __cplusplus
extern "C" {{
#endif

/* Begin an episode: forget. */
void {name}_reset(float *memory);

/* Choose. It uses room of its own, so one thread at a time may call it.
   observation  {big}_OBSERVATION numbers
   memory       {big}_MEMORY numbers that are carried from step to step (NULL if that is 0)
   noise        {big}_NOISE {drawn}: explore as in training; NULL: act as well as can be
   allowed      {big}_CHOICES flags, which choices are allowed; NULL: all
   action       room for {big}_ACTION of them */
{_signature(plan, name)};

#ifdef __cplusplus
}}
#endif
#endif
"""


def _array(name: str, values: np.ndarray) -> str:
    numbers = [_number(v) for v in values.ravel().tolist()]
    lines = [", ".join(numbers[i : i + PER_LINE]) for i in range(0, len(numbers), PER_LINE)]
    return f"\nstatic const float {name}[{values.size}] = {{\n    " + ",\n    ".join(lines) + "\n};"


def _number(value: float) -> str:
    text = f"{np.float32(value):.9g}"
    return f"{text}f" if any(c in text for c in ".en") else f"{text}.0f"


class _Source:
    """The statements of the function that acts."""

    def __init__(self, plan: Plan, name: str):
        self.plan, self.name = plan, name
        self.pieces: set[str] = set()
        self.rooms: list[str] = []
        self._count = 0

    def _room(self, size: int) -> str:
        self._count += 1
        name = f"x{self._count}"
        self.rooms.append(f"    static float {name}[{size}];")
        return name

    def body(self) -> list[str]:
        lines: list[str] = []
        x, size = "observation", self.plan.observation.size
        for step in self.plan.steps:
            x, size, more = getattr(self, f"_{step['op']}")(step, x, size)
            lines += more
        return lines + getattr(self, f"_{self.plan.head['kind']}")(self.plan.head, x)

    def _normalize(self, step: dict[str, Any], x: str, size: int) -> tuple[str, int, list[str]]:
        self.pieces.add("within")
        y, limit = self._room(size), _number(step["limit"])
        inner = f"({x}[i] - {step['mean']}[i]) * {step['precision']}[i]"
        return y, size, [f"    for (int i = 0; i < {size}; i++) {y}[i] = within({inner}, -{limit}, {limit});"]

    def _convolve(self, step: dict[str, Any], x: str, size: int) -> tuple[str, int, list[str]]:
        self.pieces.add("convolve")
        rows, columns = ((step[n] - step["kernel"]) // step["stride"] + 1 for n in ("height", "width"))
        y, total = self._room(rows * columns * step["outputs"]), rows * columns * step["outputs"]
        numbers = [step["width"], step["channels"], step["kernel"], step["stride"], rows, columns, step["outputs"]]
        arguments = ", ".join([step["weight"], step["bias"], *map(str, numbers), _number(step["scale"]), x, y])
        return y, total, [f"    convolve({arguments});"]

    def _recur(self, step: dict[str, Any], x: str, size: int) -> tuple[str, int, list[str]]:
        self.pieces.add("sigmoid")
        n, gates = step["size"], (3 if step["kind"] == "gru" else 4)
        a, b = self._room(gates * n), self._room(gates * n)
        lines = [
            f"    dense({step['weight_ih']}, {step['bias']}, {gates * n}, {size}, {x}, {a});",
            f"    dense({step['weight_hh']}, 0, {gates * n}, {n}, memory, {b});",
            f"    for (int i = 0; i < {n}; i++) {{",
        ]
        if step["kind"] == "gru":
            lines += [
                f"        float reset = sigmoid({a}[i] + {b}[i]), keep = sigmoid({a}[{n} + i] + {b}[{n} + i]);",
                f"        float fresh = tanhf({a}[{2 * n} + i] + reset * ({b}[{2 * n} + i] + {step['bias_n']}[i]));",
                "        memory[i] = fresh + keep * (memory[i] - fresh);",
            ]
        else:
            lines += [
                f"        float in = sigmoid({a}[i] + {b}[i]), keep = sigmoid({a}[{n} + i] + {b}[{n} + i]);",
                f"        float fresh = tanhf({a}[{2 * n} + i] + {b}[{2 * n} + i]);",
                f"        float out = sigmoid({a}[{3 * n} + i] + {b}[{3 * n} + i]);",
                f"        memory[{n} + i] = keep * memory[{n} + i] + in * fresh;",
                f"        memory[i] = out * tanhf(memory[{n} + i]);",
            ]
        return "memory", n, [*lines, "    }"]

    def _dense(self, step: dict[str, Any], x: str, size: int) -> tuple[str, int, list[str]]:
        outputs = len(self.plan.arrays[step["bias"]])
        y = self._room(outputs)
        lines = [f"    dense({step['weight']}, {step['bias']}, {outputs}, {size}, {x}, {y});"]
        if step["layer_norm"]:
            self.pieces.add("layer_norm")
            lines.append(f"    standardize({y}, {outputs});")
        if step["activation"] == "swish":
            self.pieces.add("sigmoid")
        if step["activation"] != "none":
            activated = ACTIVATIONS[step["activation"]].format(x=f"{y}[i]")
            lines.append(f"    for (int i = 0; i < {outputs}; i++) {y}[i] = {activated};")
        return y, outputs, lines

    # From outputs to actions.

    def _real(self, head: dict[str, Any], best: str, drawn: str) -> list[str]:
        self.pieces.add("within")
        scaled = f"a * {head['half']}[i] + {head['middle']}[i]"
        return [
            f"    for (int i = 0; i < {self.plan.action.size}; i++) {{",
            f"        float a = noise ? {drawn} : {best};",
            f"        action[i] = within({scaled}, {head['low']}[i], {head['high']}[i]);",
            "    }",
        ]

    def _gaussian(self, head: dict[str, Any], x: str) -> list[str]:
        return self._real(head, f"{x}[i]", f"{x}[i] + {head['std']}[i] * noise[i]")

    def _squashed(self, head: dict[str, Any], x: str) -> list[str]:
        raw = f"{x}[{self.plan.action.size} + i] + {_number(head['shift'])}"
        std = f"expf(within({raw}, {_number(head['lowest'])}, {_number(head['highest'])}))"
        return self._real(head, f"tanhf({x}[i])", f"tanhf({x}[i] + {std} * noise[i])")

    def _noisy(self, head: dict[str, Any], x: str) -> list[str]:
        noisy = f"within(tanhf({x}[i]) + {_number(head['scale'])} * noise[i], -1.0f, 1.0f)"
        return self._real(head, f"tanhf({x}[i])", noisy)

    def _categorical(self, head: dict[str, Any], x: str) -> list[str]:
        self.pieces |= {"best", "draw"}
        lines, start = [], 0
        for i, n in enumerate(head["choices"]):
            allowed = f"allowed ? allowed + {start} : 0"
            drawn, best = f"draw({x} + {start}, {allowed}, {n}, noise[{i}])", f"best({x} + {start}, {allowed}, {n})"
            lines.append(f"    action[{i}] = noise ? {drawn} : {best};")
            start += n
        return lines

    def _values(self, head: dict[str, Any], x: str) -> list[str]:
        self.pieces |= {"best", "draw"}
        choices, total = head["choices"], sum(head["choices"])
        worth, even = self._room(total), self._room(total)
        lines, start = [], 0
        for i, n in enumerate(choices):
            lines += self._worth(head, x, worth, i, start, n)
            start += n
        lines.append(f"    int anything = noise && noise[0] < {_number(head['epsilon'])};")
        start = 0
        for i, n in enumerate(choices):
            allowed = f"allowed ? allowed + {start} : 0"
            drawn = f"draw({even} + {start}, {allowed}, {n}, noise[{i + 1}])"
            lines.append(f"    action[{i}] = anything ? {drawn} : best({worth} + {start}, {allowed}, {n});")
            start += n
        return lines

    def _worth(self, head: dict[str, Any], x: str, worth: str, component: int, start: int, n: int) -> list[str]:
        """What the choices of a component are worth."""
        width, total = head["atoms"] or 1, sum(head["choices"])
        lines = []
        if head["dueling"]:
            lines += [
                f"    for (int k = 0; k < {width}; k++) {{",
                "        float mean = 0.0f;",
                f"        for (int i = {start}; i < {start + n}; i++) mean += {x}[i * {width} + k] / {n};",
                f"        for (int i = {start}; i < {start + n}; i++)",
                f"            {x}[i * {width} + k] += {x}[{(total + component) * width} + k] - mean;",
                "    }",
            ]
        lines.append(f"    for (int i = {start}; i < {start + n}; i++) {{")
        if head["atoms"]:
            lines += [
                f"        const float *row = {x} + i * {width};",
                "        float top = row[0], sum = 0.0f, mean = 0.0f;",
                f"        for (int k = 1; k < {width}; k++) if (row[k] > top) top = row[k];",
                f"        for (int k = 0; k < {width}; k++) {{",
                "            float weight = expf(row[k] - top);",
                "            sum += weight;",
                "            mean += weight * returns[k];",
                "        }",
                f"        {worth}[i] = mean / sum;",
            ]
        else:
            lines.append(f"        {worth}[i] = {x}[i];")
        return [*lines, "    }"]
