#!/usr/bin/env bash
# The record of stress runs: every cell of the matrix 50,000 calls, every named protocol 1,000,000 among its forms.
#
#   host/benches/stress.sh DEVICES FOLDER [PROGRAM] DEVICES as in `allfold stress --devices`, PROGRAM default: cargo allfold
#
# Leaves matrix.{md,json,txt} and presets.{md,json,txt} in FOLDER. Fails if a protocol that is known to be sound went wrong.
set -euo pipefail
devices=${1:?devices, as 0,1}
folder=${2:?a folder for the results}
program=${3:-cargo allfold}
mkdir -p "$folder"
failed=0
run() {
  local name=$1
  shift
  $program stress --devices "$devices" "$@" --json "$folder/$name.json" --markdown "$folder/$name.md" \
    | tee "$folder/$name.txt" || failed=1
}
run matrix --matrix --calls 50000
run presets --presets --calls 1000000
exit "$failed"
