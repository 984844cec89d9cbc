# Sourced by the other scripts here: finds Python, makes .venv in the checkout, installs pinned requirements once.
# Bash 3.2 and a bare machine must be able to read this file.

export GPUNEX_CALLER=$PWD # relative paths on the command line mean this folder
unset PYTHONDONTWRITEBYTECODE # dozens of processes would each compile all of Django again: seconds of processor time each
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit 1

fail() {
    echo "$*" >&2
    exit 1
}

# python_find: prints the first Python that is new enough.
python_find() {
    local name
    for name in "${PYTHON:-}" python3.13 python3.12 python3.11 python3 python3.14 python; do
        if [ -n "$name" ] && command -v "$name" >/dev/null 2>&1 &&
            "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$name"
            return 0
        fi
    done
    return 1
}

file_hash() {
    "$1" -c 'import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], "rb").read()).hexdigest())' "$2"
}

debian_as_root() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1
}

apt_install() {
    echo "Installing system packages: $*"
    (apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@") >&2
}

venv_make() {
    local base
    base=$(python_find) || fail "GPUnex needs Python 3.11 or newer; found $(python3 --version 2>/dev/null || echo none)."
    if ! "$base" -c 'import ensurepip, venv' 2>/dev/null; then
        debian_as_root || fail "The venv module of $base is missing: install the package python3-venv."
        apt_install "$("$base" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
    fi
    echo "Making .venv with $("$base" --version)"
    "$base" -m venv .venv || fail "The virtual environment .venv could not be made with $base."
}

# packages_install FILE: with uv (seconds) where it can be had, else with pip (minutes); the hashes are checked either way.
packages_install() {
    local uv
    uv=$(command -v uv || true)
    if [ -z "$uv" ] && .venv/bin/python -m pip install --quiet --require-hashes -r requirements-tools.txt; then
        uv=.venv/bin/uv
    fi
    if [ -n "$uv" ] && "$uv" pip install --quiet --python .venv/bin/python --require-hashes -r "$1"; then
        return 0
    fi
    .venv/bin/python -m pip install --quiet --require-hashes -r "$1"
}

# environment_make FILE…: afterwards .venv has what the first FILE pins. A stamp remembers the file's hash; a current
# stamp of any other FILE will do too (the development requirements contain those of bin/start).
environment_make() {
    local wanted=$1 file stamp
    if ! .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        rm -rf .venv
        venv_make
    fi
    for file in "$@"; do
        stamp=.venv/installed-${file%.txt}
        if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(file_hash .venv/bin/python "$file")" ]; then
            return 0
        fi
    done
    echo "Installing $wanted into .venv (once)"
    packages_install "$wanted" || fail "$wanted could not be installed; see above."
    file_hash .venv/bin/python "$wanted" >".venv/installed-${wanted%.txt}"
}
