#!/usr/bin/env bash
# apt-get install what is named, asking nobody anything. Returns 1, with one clear line, where it cannot.
set -euo pipefail

if ! command -v apt-get >/dev/null 2>&1; then
    echo "EmberMQ: not a Debian system, please install yourself: $*" >&2
    exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    # Never ask for a password: nobody may be there to answer.
    if command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        as_root=(sudo -n)
    else
        echo "EmberMQ: not root, please ask an administrator for: apt-get install $*" >&2
        exit 1
    fi
fi

# Debian starts a freshly installed daemon; we want the program, not a broker on port 5672.
policy=/usr/sbin/policy-rc.d
made_policy=no
if [ ! -e "$policy" ]; then
    if printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null; then
        "${as_root[@]}" chmod +x "$policy"
        made_policy=yes
    fi
fi
said=$(mktemp)
finish() {
    rm -f "$said"
    [ "$made_policy" = yes ] && "${as_root[@]}" rm -f "$policy"
    return 0
}
trap finish EXIT

echo "EmberMQ: apt-get install $* (this can take a minute)" >&2
# apt's hundreds of lines are shown only when it fails.
quietly() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@" </dev/null >"$said" 2>&1
}
install() {
    quietly apt-get install -y -q --no-install-recommends "$@"
}
# The package lists may be missing (containers) or old, so a failure is tried once more with fresh ones.
if [ -n "$(ls /var/lib/apt/lists/*Packages* 2>/dev/null)" ] && install "$@"; then
    exit 0
fi
if quietly apt-get update -q && install "$@"; then
    exit 0
fi
cat "$said" >&2
echo "EmberMQ: could not install: $*" >&2
exit 1
