"""Train, export, and act with nothing but NumPy.

Run it as `python examples/export_and_run.py`. It leaves a run and a folder in `runs/`.
"""

import argparse
import importlib.util

import slipstream


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200_000)
    options = parser.parse_args()
    result = slipstream.train("cartpole", run="runs/balance", total_steps=options.steps, num_worlds=64, quiet=True)
    written = slipstream.export(result.run, "runs/balance-policy", numpy=True)
    print(f"{written.folder}: {', '.join(written.files)}")

    # From here on this could be another machine, with `policy.py` alone.
    spec = importlib.util.spec_from_file_location("policy", f"{written.folder}/policy.py")
    policy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(policy)
    print("the pole falls to the right:", "push right" if policy.act([0.0, 0.0, 0.1, 0.5]) == 1 else "push left")


if __name__ == "__main__":
    main()
