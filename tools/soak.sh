#!/usr/bin/env bash
# Everything that takes long, one part after the other, whatever becomes of those before; then what failed.
#
#   tools/soak.sh PYTHON CYCLES CONNECTIONS [pytest arguments]
#
# CYCLES is how often brokers are killed; CONNECTIONS how many clients come at once. A failed history of the
# crash tests names the seed that repeats it (--crash-seed).
set -uo pipefail
python="$1" cycles="$2" connections="$3"
shift 3
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mutant_cycles=$((cycles < 100 ? 100 : cycles)) # fewer tell nothing
failed=()

part() { # part NAME MODE [pytest arguments]
    local name="$1" mode="$2"
    shift 2
    echo "== soak: $name =="
    tools/run-tests.sh "$mode" "$python" "$@" -q -rfE || failed+=("$name: tools/run-tests.sh $mode $python $*")
}

part "kills and power cuts" compiled tests/crash --cycles "$cycles" --maxfail 3 --durations 5 "$@"
part "chaos around the client" compiled tests/client/test_chaos.py tests/client/test_robustness.py --cycles "$cycles" "$@"
part "a crowd" compiled tests/access/test_crowd.py --connections "$connections" -s "$@"
part "kills under Spark" compiled tests/spark/test_kills.py --spark-kills 200 "$@"
part "Spark on a cluster" compiled tests/spark/test_cluster.py --spark-cluster "$@"
part "brokers that are wrong on purpose" interpreted tests/crash/test_mutants.py --cycles "$mutant_cycles" "$@"

if [ ${#failed[@]} -gt 0 ]; then
    echo "== soak: ${#failed[@]} of 6 parts failed; each alone: =="
    printf '%s\n' "${failed[@]}"
    exit 1
fi
echo "== soak: all parts passed =="
