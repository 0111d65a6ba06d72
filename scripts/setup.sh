#!/usr/bin/env bash
# Sets up everything Slipstream needs: a virtual environment in .venv, and libLLVM and Chromium if the system has none.
set -euo pipefail
cd "$(dirname "$0")/.."

find_python() {
    for candidate in "${PYTHON:-}" python3.13 python3.12 python3.11 python3; do
        if [ -n "$candidate" ] && command -v "$candidate" >/dev/null &&
            "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "Slipstream needs Python 3.11 or newer; set PYTHON to one." >&2
    exit 1
}

# apt_install PACKAGE...: installs what it can, as root or through sudo; says what to do where it cannot.
apt_install() {
    local as_root=()
    [ "$(id -u)" = 0 ] || as_root=(sudo -n)
    if ! command -v apt-get >/dev/null; then
        return 1
    fi
    "${as_root[@]}" apt-get update -qq && "${as_root[@]}" apt-get install -y -qq "$@" >/dev/null
}

python=$(find_python)
if [ ! -x .venv/bin/python ]; then
    echo "Creating .venv with $($python --version)"
    "$python" -m venv .venv
fi
echo "Installing Slipstream into .venv (a few minutes the first time)"
install=(.venv/bin/python -m pip install --quiet --disable-pip-version-check)
"${install[@]}" --requirement requirements.lock
"${install[@]}" --no-deps --no-build-isolation --editable .

has_llvm() { .venv/bin/python -c 'import sys; from slipstream.llvm import llvm_for_drjit; sys.exit(not llvm_for_drjit().library)'; }
if ! has_llvm; then
    echo "No usable libLLVM found: installing one"
    apt_install libllvm19 || apt_install libllvm18 || apt_install libllvm17 || true
    has_llvm || {
        echo "Please install libLLVM 16 or newer (Debian 12: apt-get install libllvm19; macOS: brew install llvm)." >&2
        exit 1
    }
fi

# The tests of the page (`slipstream watch`) look at it with this one; any browser will do to look at it oneself.
if [ "$(uname)" = Linux ] && ! command -v chromium >/dev/null; then
    echo "No Chromium found: installing it for the tests of the page"
    apt_install chromium || echo "Tests of the page need it: apt-get install chromium" >&2
fi

# Only `slipstream video` needs this one, so that its absence is no error.
if [ "$(uname)" = Linux ] && ! ldconfig -p | grep -q libEGL.so.1; then
    echo "No EGL found: installing a software renderer for slipstream video"
    apt_install libegl1 libgl1-mesa-dri || echo "Films need it: apt-get install libegl1 libgl1-mesa-dri" >&2
fi

# Only tests need this one: the leaderboard of a tournament is tried on a real server too.
if [ "$(uname)" = Linux ] && ! compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null && ! command -v initdb >/dev/null; then
    echo "No PostgreSQL found: installing one for the tests of the leaderboard"
    apt_install postgresql || echo "Tests of the leaderboard need it: apt-get install postgresql" >&2
fi
touch .venv/.ready
