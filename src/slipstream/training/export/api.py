"""`slipstream.export`: from a run to a folder with its policies, in every form that was asked for."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipstream import __version__
from slipstream.runs.checkpoint import load_checkpoint
from slipstream.runs.directory import RunDirectory
from slipstream.runs.export import write_shared_folder
from slipstream.spaces import describe
from slipstream.training.config import PolicyConfig, TrainConfig
from slipstream.training.config_json import from_json, to_json
from slipstream.training.export.c_file import c_files
from slipstream.training.export.card import model_card
from slipstream.training.export.numpy_file import numpy_file
from slipstream.training.export.onnx_file import onnx_file
from slipstream.training.export.plan import Plan, plan_of
from slipstream.training.loading import groups_of_checkpoint
from slipstream.training.saving import under
from slipstream.training.starting import choose_policy


@dataclass(frozen=True)
class Export:
    """What an export has written."""

    folder: str
    policies: list[str]
    files: list[str]


def export(
    run: str | Path,
    out: str | Path | None = None,
    *,
    policy: str | None = None,
    checkpoint: str = "best",
    onnx: bool = False,
    numpy: bool = False,
    c: bool = False,
) -> Export:
    """Write the policies of a run into a folder that can be shared, and loaded with `slipstream.load`.

    The world is not needed, neither here nor where the policies are used.

    Args:
        run: the run's directory.
        out: the folder; by default the run's own name with `-policy` added.
        policy: which one, if not all of the run's.
        checkpoint: `best`, `latest`, or a checkpoint's name.
        onnx: add ONNX models, one that acts as well as can be and one that samples.
        numpy: add a Python file that needs NumPy alone.
        c: add a C header and source.
    """
    directory = RunDirectory.open(run)
    config = from_json(directory.config())
    found = load_checkpoint(directory, checkpoint)
    names = list(config.policies) if policy is None else [choose_policy(str(run), list(config.policies), policy)]
    groups = {g.name: g for g in groups_of_checkpoint(found, str(directory.path))}
    weights = {n: a for n, a in found.part("actor").items() if n.partition("/")[0] in names}
    kept = shareable(config, names)
    others: dict[str, str | bytes] = {}
    for name in names:
        if onnx or numpy or c:
            group = groups[config.policies[name].groups[0]]
            plan = plan_of(config.policies[name], group.observation, group.action, under(weights, name))
            doc = f"Policy {name!r} of {kept.env}: {describe(group.observation)} to {describe(group.action)}."
            others |= _forms(plan, _file_name(name, len(names)), doc, onnx, numpy, c)
    seen = [g for n in names for g in config.policies[n].groups]
    facts = {
        "slipstream_version": __version__,
        "step": found.step,
        "score": found.score,
        "groups": [g for g in found.facts["groups"] if g["name"] in seen],
        "training": to_json(kept),
    }
    folder = Path(f"{Path(run)}-policy") if out is None else Path(out)
    card = model_card(kept, found, [groups[name] for name in seen], list(others), folder.name)
    files = write_shared_folder(folder, facts, weights, card, others)
    return Export(str(folder), names, [file.name for file in files])


def _file_name(policy: str, count: int) -> str:
    """What the files of a policy are called: also a name in Python and C."""
    return "policy" if count == 1 else re.sub(r"\W", "_", policy)


def _forms(plan: Plan, name: str, doc: str, onnx: bool, numpy: bool, c: bool) -> dict[str, str | bytes]:
    files: dict[str, str | bytes] = {}
    if onnx:
        files[f"{name}.onnx"] = onnx_file(plan, sampling=False, doc=doc)
        files[f"{name}_sampling.onnx"] = onnx_file(plan, sampling=True, doc=doc)
    if numpy:
        files[f"{name}.py"] = numpy_file(plan)
    if c:
        files[f"{name}.h"], files[f"{name}.c"] = c_files(plan, doc, name)
    return files


def shareable(config: TrainConfig, names: list[str]) -> TrainConfig:
    """A configuration without what only means something on the machine where it was written."""

    def short(value: Any) -> Any:
        return Path(value).name if isinstance(value, str) and Path(value).is_absolute() else value

    def alone(policy: PolicyConfig) -> PolicyConfig:
        return dataclasses.replace(policy, load=None, network=short(policy.network))

    policies: Mapping[str, PolicyConfig] = {name: alone(config.policies[name]) for name in names}
    options = {name: short(value) for name, value in config.env_options.items()}
    return dataclasses.replace(config, env=short(config.env), policies=policies, env_options=options)
