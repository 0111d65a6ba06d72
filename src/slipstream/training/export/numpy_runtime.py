"""A policy in plain NumPy, written by `slipstream export`. Nothing else is needed: not Slipstream, not the world.

    import policy
    action = policy.act(observation)                  # [features] of one agent, or [features, lanes] of many
    action = policy.act(observation, explore=True)    # drawn as in training; policy.seed(3) begins anew

A policy with a memory remembers what it has seen since `policy.reset()`, lane by lane.
"""

import numpy as np


class NumpyPolicy:
    """Acts by a plan (steps and a head, as plain data) and the arrays it names."""

    def __init__(self, plan, arrays):
        self.plan, self.arrays = plan, {name: np.asarray(a, np.float32) for name, a in arrays.items()}
        self.memory = []
        self.seed(0)

    def seed(self, seed):
        """Begin the random numbers of exploring anew."""
        self.rng = np.random.default_rng(seed)

    def reset(self, where=None):
        """Forget the past: of all lanes, or of those whose flag in `where`, `[lanes]`, is set."""
        if where is None:
            self.memory = []
        else:
            self.memory = [np.where(np.asarray(where, bool), np.float32(0.0), m) for m in self.memory]

    def act(self, observation, explore=False, action_mask=None, noise=None):
        """Actions for observations.

        `observation` is `[features, lanes]`, or `[features]` of one agent. With `explore` actions are drawn as in
        training; `noise`, `[numbers, lanes]`, takes the place of the random numbers. `action_mask`, `[choices, lanes]`,
        says which choices are allowed. Returns `[components, lanes]` (one choice: `[lanes]`), without the lane axis
        for one agent.
        """
        given = np.asarray(observation, np.float32)
        x = given[:, None] if given.ndim == 1 else given
        size = self._size_of(self.plan["observation"])
        if x.ndim != 2 or len(x) != size:
            raise ValueError(f"Observations must be [{size}] or [{size}, lanes], got {list(given.shape)}.")
        lanes = x.shape[1]
        if self.plan["memory"] and (not self.memory or self.memory[0].shape[1] != lanes):
            self.memory = [np.zeros((n, lanes), np.float32) for n in self.plan["memory"]]
        for step in self.plan["steps"]:
            x = getattr(self, "_" + step["op"])(step, x)
        mask = None if action_mask is None else np.asarray(action_mask, bool).reshape(-1, lanes)
        action = getattr(self, "_" + self.plan["head"]["kind"])(self.plan["head"], x, mask, explore, noise)
        if self.plan["action"]["kind"] == "discrete":
            action = action[0]
        return action[..., 0] if given.ndim == 1 else action

    @staticmethod
    def _size_of(space):
        return int(np.prod(space["shape"])) if space["kind"] == "image" else space["size"]

    # From features to outputs.

    def _normalize(self, step, x):
        mean, precision = self.arrays[step["mean"]][:, None], self.arrays[step["precision"]][:, None]
        return np.clip((x - mean) * precision, -step["limit"], step["limit"])

    def _convolve(self, step, x):
        h, w, c, k, s = (step[n] for n in ("height", "width", "channels", "kernel", "stride"))
        pictures = x.T.reshape(-1, h, w, c) * np.float32(step["scale"])
        windows = np.lib.stride_tricks.sliding_window_view(pictures, (k, k), axis=(1, 2))[:, ::s, ::s]
        weight = self.arrays[step["weight"]].transpose(2, 0, 1, 3).reshape(c * k * k, -1)
        out = windows.reshape(*windows.shape[:3], c * k * k) @ weight + self.arrays[step["bias"]]
        return np.maximum(out, 0.0).reshape(len(pictures), -1).T

    def _recur(self, step, x):
        a = self.arrays
        inputs = a[step["weight_ih"]] @ x + a[step["bias"]][:, None]
        hidden = a[step["weight_hh"]] @ self.memory[0]
        if step["kind"] == "gru":
            (ir, iz, new), (hr, hz, carried) = np.split(inputs, 3), np.split(hidden, 3)
            new = np.tanh(new + _sigmoid(ir + hr) * (carried + a[step["bias_n"]][:, None]))
            self.memory = [new + _sigmoid(iz + hz) * (self.memory[0] - new)]
        else:
            i, f, g, o = np.split(inputs + hidden, 4)
            cell = _sigmoid(f) * self.memory[1] + _sigmoid(i) * np.tanh(g)
            self.memory = [_sigmoid(o) * np.tanh(cell), cell]
        return self.memory[0]

    def _dense(self, step, x):
        x = self.arrays[step["weight"]] @ x + self.arrays[step["bias"]][:, None]
        if step["layer_norm"]:
            x = x - x.mean(axis=0)
            x = x / np.sqrt(np.square(x).mean(axis=0) + np.float32(1e-5))
        return ACTIVATIONS[step["activation"]](x)

    # From outputs to actions.

    def _drawn(self, head, shape, noise):
        if noise is not None:
            return np.asarray(noise, np.float32).reshape(shape)
        return self.rng.standard_normal(shape, np.float32) if head["noise"] == "normal" else self.rng.random(shape)

    def _in_bounds(self, head, action):
        half, middle, low, high = (self.arrays[head[n]][:, None] for n in ("half", "middle", "low", "high"))
        return np.clip(action * half + middle, low, high)

    def _gaussian(self, head, mean, mask, explore, noise):
        if explore:
            mean = mean + self.arrays[head["std"]][:, None] * self._drawn(head, mean.shape, noise)
        return self._in_bounds(head, mean)

    def _squashed(self, head, outputs, mask, explore, noise):
        mean, raw = np.split(outputs, 2)
        if explore:
            std = np.exp(np.clip(raw + head["shift"], head["lowest"], head["highest"]))
            mean = mean + std * self._drawn(head, mean.shape, noise)
        return self._in_bounds(head, np.tanh(mean))

    def _noisy(self, head, outputs, mask, explore, noise):
        action = np.tanh(outputs)
        if explore:
            action = np.clip(action + head["scale"] * self._drawn(head, action.shape, noise), -1.0, 1.0)
        return self._in_bounds(head, action)

    def _categorical(self, head, logits, mask, explore, noise):
        allowed = logits if mask is None else np.where(mask, logits, np.float32(-1e9))
        parts = np.split(allowed, np.cumsum(head["choices"])[:-1])
        if not explore:
            return np.stack([part.argmax(axis=0) for part in parts]).astype(np.int32)
        uniform = self._drawn(head, (len(parts), logits.shape[1]), noise)
        return np.stack([_inverse_cdf(np.exp(p - p.max(axis=0)), u) for p, u in zip(parts, uniform)])

    def _values(self, head, outputs, mask, explore, noise):
        choices, atoms, lanes = head["choices"], head["atoms"], outputs.shape[1]
        out = outputs.reshape(-1, atoms or 1, lanes)
        worth, ends = out[: sum(choices)], np.cumsum(choices)[:-1]
        if head["dueling"]:
            states = out[sum(choices) :]
            worth = np.concatenate([s + p - p.mean(axis=0) for s, p in zip(states, np.split(worth, ends))])
        if atoms:
            weight = np.exp(worth - worth.max(axis=1, keepdims=True))
            worth = (weight * self.arrays["returns"][:, None]).sum(axis=1) / weight.sum(axis=1)
        else:
            worth = worth[:, 0]
        allowed = np.ones(worth.shape, bool) if mask is None else mask
        worth = np.where(allowed, worth, np.float32(-1e9))
        action = np.stack([part.argmax(axis=0) for part in np.split(worth, ends)]).astype(np.int32)
        if explore:
            uniform = self._drawn(head, (len(choices) + 1, lanes), noise)
            weight = np.split(allowed.astype(np.float32), ends)
            anything = np.stack([_inverse_cdf(w, u) for w, u in zip(weight, uniform[1:])])
            action = np.where(uniform[0] < head["epsilon"], anything, action)
        return action


def _sigmoid(x):
    return 0.5 * (np.tanh(0.5 * x) + 1.0)


def _inverse_cdf(weight, uniform):
    """The choice whose share of the weight `uniform` falls into; one without weight is never taken."""
    cumulated = np.cumsum(weight, axis=0)
    point = np.minimum(uniform * cumulated[-1], cumulated[-1] * np.float32(1.0 - 2.0**-22))
    return (cumulated <= point).sum(axis=0).astype(np.int32)


ACTIVATIONS = {
    "none": lambda x: x,
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0.0),
    "swish": lambda x: x * _sigmoid(x),
    "elu": lambda x: np.where(x < 0, np.expm1(np.minimum(x, 0.0)), x),
}
