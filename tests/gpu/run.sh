#!/bin/sh
# Runs the suite on this machine's GPUs: `run.sh [arguments of suite, such as --quick]`. The programs `suite` and `allfold`
# lie beside this script, as `cargo xtask bundle` packs them; neither Rust nor a CUDA toolkit is needed. Each step has a
# time limit. Logs go to $OUT where that is set, else to a folder `logs` here. Exit code 1 when a step fails.
set -u
here=$(cd "$(dirname "$0")" && pwd)
logs=${OUT:-$here/logs}
mkdir -p "$logs"
failed=0

# step NAME SECONDS COMMAND...
step() {
    name=$1 limit=$2
    shift 2
    echo "==> $name: $*"
    timeout --kill-after=10 "$limit" "$@" >"$logs/$name.log" 2>&1
    code=$?
    cat "$logs/$name.log"
    [ $code = 124 ] && echo "not done after $limit s"
    if [ $code != 0 ]; then
        failed=$((failed + 1))
        echo "<== $name FAILED with code $code"
    fi
}

gpus=$(nvidia-smi --list-gpus 2>/dev/null | grep -c '^GPU ')
if [ "$gpus" = 0 ]; then
    echo "SKIPPED: nvidia-smi lists no GPU"
    exit 0
fi
echo "$gpus GPUs, logs in $logs"
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader

[ -x "$here/allfold" ] && step doctor 120 "$here/allfold" doctor
# Ranks share one GPU: world sizes 1 to 8.
step suite-one-gpu 420 "$here/suite" --backend cuda --devices 0,0,0,0,0,0,0,0 "$@"
if [ "$gpus" -ge 2 ]; then
    all=$(seq -s, 0 $((gpus < 8 ? gpus - 1 : 7)))
    step suite-gpus 300 "$here/suite" --backend cuda --devices "$all" "$@"
    # Two ranks on each of two GPUs: neighbours across the link, and on the same GPU.
    step suite-two-each 300 "$here/suite" --backend cuda --devices 0,1,0,1 "$@"
    step stress 300 "$here/suite" --backend cuda --devices "$all" --filter stress --stress 100000
else
    step stress 300 "$here/suite" --backend cuda --devices 0,0 --filter stress --stress 100000
fi
# Ranks, streams and driver calls that fail. Each part is a program of its own: what one of them does to a context is not found
# by the next. A part ends in time by itself, and counts what it had no time for.
if [ "$gpus" -ge 2 ]; then
    on=0,1 parts="pairs gpus processes threads driver"
else
    # Ranks that are threads need a GPU each.
    on=0,0 parts="pairs gpus processes driver"
fi
for part in $parts; do
    step "faults-$part" 230 "$here/suite" --backend cuda --devices "$on" --faults "$part" --seconds 80 --limit 210
done
if [ "$gpus" -ge 2 ] && [ -x "$here/allfold" ]; then
    step bench 60 "$here/allfold" bench --graph --csv "$logs/bench.csv"
    step bench-vllm 60 "$here/allfold" bench --graph --protocol vllm --csv "$logs/bench-vllm.csv"
fi

echo
tail -n 1 "$logs"/suite-*.log "$logs"/stress.log "$logs"/faults-*.log
[ $failed = 0 ]
