#!/usr/bin/env bash
# Are the lower bounds in pyproject.toml true? Installs the lowest versions it allows of what Slipstream itself imports
# into a fresh environment, and runs there the tests that touch most of it. Takes minutes; needs scripts/setup.sh's libLLVM.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/tools"
"$folder/tools/bin/python" -m pip install --quiet --disable-pip-version-check uv
uv="$folder/tools/bin/uv"
version=$("$folder/tools/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')

"$uv" pip compile pyproject.toml --extra gymnasium --extra video --resolution lowest-direct --python-version "$version" \
    --no-header --no-annotate --quiet --output-file "$folder/lowest.txt" >/dev/null
# Tests are run by the tools that are locked; mujoco-mjx has a robot that they look at.
grep -E '^(hypothesis|mujoco-mjx|pytest)==' requirements.lock >"$folder/tools.txt"
"$uv" venv --quiet --python "$folder/tools/bin/python" "$folder/lowest"
"$uv" pip install --quiet --python "$folder/lowest/bin/python" -r "$folder/lowest.txt" -r "$folder/tools.txt"
"$uv" pip install --quiet --python "$folder/lowest/bin/python" --no-deps --editable .

echo "Testing with $(paste -sd " " "$folder/lowest.txt")"
"$folder/lowest/bin/python" -m pytest -p no:cacheprovider -m "not slow" "$@" \
    tests/test_arrays.py tests/test_random.py tests/nets tests/algos tests/runs \
    tests/physics/test_errors.py tests/physics/test_robots.py \
    tests/envs/test_worlds.py tests/envs/classic tests/envs/tag \
    tests/cli tests/training/test_film.py tests/training/test_fused.py tests/training/test_in_gymnasium.py
