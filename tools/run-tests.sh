#!/usr/bin/env bash
# Run the test suite in one of its two modes.
#
#   tools/run-tests.sh compiled|interpreted PYTHON [pytest arguments]
#
# Python prefers a compiled module to the .py beside it, so the interpreted run uses a copy of the sources
# without the compiled ones. PYTHONPATH puts it first here and in every process that the tests start.
# EMBERMQ_EXPECT makes tests/unit/test_build.py fail when the mode is not the one we think it is.
set -euo pipefail
mode="$1" python="$2"
shift 2
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ "$mode" = interpreted ]; then
    rm -rf build/interpreted
    mkdir -p build/interpreted
    tar -C src --exclude='*.so' --exclude='*.c' --exclude=__pycache__ --exclude='*.egg-info' -cf - . \
        | tar -C build/interpreted -xf -
    export PYTHONPATH="$PWD/build/interpreted"
fi
export EMBERMQ_EXPECT="$mode"

echo "== tests, $mode =="
if [ $# -gt 0 ]; then
    exec "$python" -m pytest "$@"
fi
# A file is the unit of distribution: tests of one file share a broker. The few that fail get a second look.
# Tests wait for something more than half of the time: four processes keep two processors busy.
exec "$python" -m tools.second_look -n "${JOBS:-4}" --dist loadfile -q
