#!/usr/bin/env bash
# Make the virtual environment and put the package into it (editable, not yet compiled).
#
#   tools/make-venv.sh VENV
#
# Works on a fresh Debian that has Python 3.11+ and nothing else. What is missing (venv's pip, a C compiler,
# Python's headers) is installed through apt where that is possible; where it is not, pip comes from PyPI and
# EmberMQ runs interpreted.
set -euo pipefail
venv="$1"
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { echo "EmberMQ: $*" >&2; }

# Version managers leave shims that exist and fail, so a candidate counts only when it runs.
find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11 /usr/bin/python3; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            "$candidate" -c 'import sys; print(sys.executable)'
            return
        fi
    done
    return 1
}

can_make_venv() { "$1" -c 'import venv, ensurepip' >/dev/null 2>&1; }

can_compile() {
    local include
    include="$("$1" -c 'import sysconfig; print(sysconfig.get_path("include"))')"
    { command -v cc || command -v gcc; } >/dev/null 2>&1 && [ -e "$include/Python.h" ] && [ -e /usr/include/stdlib.h ]
}

if ! python="$(find_python)"; then
    tools/apt-install.sh python3 python3-venv python3-dev gcc libc6-dev || true
    python="$(find_python)" || { say "Python 3.11 or newer is needed (or set PYTHON=/path/to/python)"; exit 1; }
fi

# One call to apt for everything that is missing.
wanted=()
version="$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
debian_python=no
case "$python" in /usr/bin/*) debian_python=yes ;; esac
if ! can_make_venv "$python" && [ "$debian_python" = yes ]; then
    wanted+=("python$version-venv")
fi
if [ "${EMBERMQ_COMPILE:-auto}" != off ] && ! can_compile "$python"; then
    wanted+=(gcc libc6-dev)
    if [ "$debian_python" = yes ]; then wanted+=("python$version-dev"); fi
fi
if [ ${#wanted[@]} -gt 0 ]; then
    tools/apt-install.sh "${wanted[@]}" || say "going on without: ${wanted[*]}"
fi

if [ ! -x "$venv/bin/python" ]; then
    if can_make_venv "$python"; then
        "$python" -m venv "$venv"
    else
        "$python" -m venv --without-pip "$venv"
    fi
fi

"$venv/bin/python" -m pip --version >/dev/null 2>&1 || "$venv/bin/python" tools/fetch_pip.py

# The package is linked, not copied: src/ is what runs. Compiling is a separate step (setup.py build_ext).
pip=("$venv/bin/python" -m pip install --disable-pip-version-check --quiet --no-input)
if ! "${pip[@]}" -r <(tools/build-requirements.sh) </dev/null ||
    ! EMBERMQ_COMPILE=off "${pip[@]}" --no-build-isolation --editable . </dev/null; then
    say "pip could not install what EmberMQ needs, see above; run make again when it can"
    exit 1
fi
