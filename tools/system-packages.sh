#!/usr/bin/env bash
# Install Debian packages for commands that are missing, when that is possible here.
#
#   tools/system-packages.sh COMMAND=PACKAGE ...
#
# Installs nothing when every command is there. Without apt, or without the right to use it, says what is
# missing and returns 1: the caller decides whether it can go on without.
set -euo pipefail

missing=()
for pair in "$@"; do
    command="${pair%%=*}" package="${pair#*=}"
    # Debian keeps daemons in /usr/sbin, which is not on everybody's path.
    if ! PATH="$PATH:/usr/sbin:/sbin" command -v "$command" >/dev/null 2>&1; then
        missing+=("$package")
    fi
done
[ ${#missing[@]} -eq 0 ] && exit 0

exec "$(dirname "${BASH_SOURCE[0]}")/apt-install.sh" "${missing[@]}"
