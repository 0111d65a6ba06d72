"""The model card of policies that are shared: what they are, how good, and how to use them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

from slipstream.envs.env import Group
from slipstream.runs.checkpoint import Checkpoint
from slipstream.spaces import describe
from slipstream.training.config import TrainConfig

FORMS = {
    "_sampling.onnx": "an ONNX model that samples: its input `noise` has the random numbers",
    ".onnx": "an ONNX model, `[batch, features]` in",
    ".py": "Python, with NumPy and nothing else: `act(observation)`",
    ".h": "C99, the header: what the functions want",
    ".c": "C99, the source: it needs the C library alone",
}
"""What files are, by how their names end."""


def model_card(
    config: TrainConfig, checkpoint: Checkpoint, groups: Sequence[Group], files: Sequence[str], title: str
) -> str:
    """The text, in Markdown, with the front matter that model hubs read.

    Args:
        config: of the run.
        checkpoint: where the weights come from.
        groups: whose policies they are.
        files: the forms that lie beside the weights.
        title: of the card.
    """
    head = ["---", "library_name: slipstream", "tags:", "- reinforcement-learning", f"- {json.dumps(config.env)}"]
    if checkpoint.score is not None:
        head += [
            "model-index:",
            f"- name: {json.dumps(title)}",
            "  results:",
            "  - task: {type: reinforcement-learning}",
            f"    dataset: {{name: {json.dumps(config.env)}, type: {json.dumps(config.env)}}}",
            f"    metrics: [{{type: mean_return, value: {checkpoint.score:.6g}}}]",
        ]
    lines = [*head, "---", "", f"# {title}", ""]
    lines += [f"Trained in `{config.env}` for {checkpoint.step:,} steps by Slipstream.", ""]
    if checkpoint.score is not None:
        lines += [f"Mean return of an evaluation without exploration: **{checkpoint.score:.1f}**.", ""]
    else:
        lines += ["It was not evaluated while it was trained.", ""]
    lines += ["| policy | algorithm | acts for | sees | does |", "|---|---|---|---|---|"]
    by_name = {g.name: g for g in groups}
    for name, policy in config.policies.items():
        group = by_name[policy.groups[0]]
        who = ", ".join(policy.groups)
        lines.append(f"| {name} | {policy.algo} | {who} | {describe(group.observation)} | {describe(group.action)} |")
    lines += ["", "## Use", "", "```python", *_usage(config, title), "```", ""]
    lines += ["Observations are `[features, lanes]`, or `[features]` of one agent. The world is not needed.", ""]
    if files:
        lines += ["## Other forms", "", "| file | what it is |", "|---|---|"]
        lines += [f"| `{name}` | {next(text for end, text in FORMS.items() if name.endswith(end))} |" for name in files]
        lines.append("")
    lines += ["## Training", ""]
    for name, policy in config.policies.items():
        settings = ", ".join(f"{n} {v}" for n, v in dataclasses.asdict(policy.settings).items())
        lines += [f"`{name}`: {policy.algo} with {settings}.", ""]
    options = ", ".join(f"{n}={v}" for n, v in config.env_options.items()) or "none"
    lines += [f"Options of the world: {options}. Seed: {config.seed}. Everything is in `config.json`.", ""]
    return "\n".join(lines)


def _usage(config: TrainConfig, title: str) -> list[str]:
    which = "" if len(config.policies) == 1 else f", policy={next(iter(config.policies))!r}"
    return ["import slipstream", "", f'policy = slipstream.load("{title}"{which})', "action = policy.act(observation)"]
