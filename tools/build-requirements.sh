#!/usr/bin/env bash
# Print the pinned build tools (setuptools, Cython) of pyproject.toml's `dev` extra, one per line.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
sed -n 's/^ *"\(\(setuptools\|Cython\)==[^"]*\)",*$/\1/p' pyproject.toml
