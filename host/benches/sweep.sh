#!/usr/bin/env bash
# Times every grid that a plan could ask for, in CUDA graphs, bf16: where the rows of host/src/tuning.rs come from.
#
#   host/benches/sweep.sh DEVICES [PROGRAM]        DEVICES as in `allfold bench --devices`, PROGRAM default: cargo allfold
set -euo pipefail
devices=${1:?devices, as 0,1}
program=${2:-cargo allfold}
for algorithm in one-shot two-shot; do
  for threads in 256 512 1024; do
    for blocks in 1 2 4 8 16 32 64; do
      # A grid that leaves blocks without work, or each with far too much, is no candidate.
      min=$((blocks * threads * 16 / 2)) max=$((blocks * threads * 16 * 64))
      ((blocks == 64)) && max=$((256 << 20))
      ((min < 1024)) && min=1024
      ((max > 256 << 20)) && max=$((256 << 20))
      echo "# $algorithm, $blocks blocks of $threads"
      $program bench --devices "$devices" --graph --dtype bf16 --algo "$algorithm" --blocks "$blocks" --threads "$threads" \
        --min "$min" --max "$max" --factor 8 --replays 12 --csv -
    done
  done
done
