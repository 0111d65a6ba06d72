"""`slipstream export`: the policies of a run for elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import tyro


@dataclass(frozen=True)
class Export:
    """Write the policies of a run into a folder that can be shared: weights (safetensors), configuration, model card.

    `slipstream.load` takes the folder as it takes a run. Other forms are added on request; none of them needs the
    world, and but for the weights none needs Slipstream.
    """

    run: tyro.conf.Positional[str]
    """Directory of the run."""
    out: str | None = None
    """The folder; by default the run's own name with -policy added. One that was exported before is replaced."""
    policy: str | None = None
    """Which policy, if not all of the run's."""
    checkpoint: str = "best"
    """Which weights: best, latest, or a checkpoint's name."""
    onnx: tyro.conf.FlagCreatePairsOff[bool] = False
    """Add ONNX models, one that acts as well as can be and one that samples."""
    numpy: tyro.conf.FlagCreatePairsOff[bool] = False
    """Add a Python file that needs NumPy and nothing else."""
    c: tyro.conf.FlagCreatePairsOff[bool] = False
    """Add a header and a source in C99 that need nothing but the C library."""
    json: bool = False
    """Print what was written as JSON."""


def run(options: Export) -> int:
    import dataclasses
    import json

    from slipstream.training.export.api import export

    forms = {"onnx": options.onnx, "numpy": options.numpy, "c": options.c}
    written = export(options.run, options.out, policy=options.policy, checkpoint=options.checkpoint, **forms)
    if options.json:
        print(json.dumps(dataclasses.asdict(written)))
    else:
        print(f"{', '.join(written.policies)} in {written.folder}:")
        for name in written.files:
            print(f"  {name}")
    return 0
