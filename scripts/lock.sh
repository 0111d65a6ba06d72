#!/usr/bin/env bash
# Writes requirements.lock: exact versions of everything that scripts/setup.sh installs, for Python 3.11 and newer.
# What is locked already stays, as far as pyproject.toml allows it; `scripts/lock.sh --upgrade` takes what is newest.
set -euo pipefail
cd "$(dirname "$0")/.."

tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
"${PYTHON:-python3}" -m venv "$tools"
"$tools/bin/python" -m pip install --quiet --disable-pip-version-check uv
"$tools/bin/uv" pip compile pyproject.toml --extra dev --universal --fork-strategy fewest --python-version 3.11 \
    --no-header --no-annotate --quiet --output-file requirements.lock "$@" >/dev/null
{
    echo "# Exact versions of everything that make installs. Written by scripts/lock.sh."
    grep -v '^#' requirements.lock
} >"$tools/lock"
cp "$tools/lock" requirements.lock
