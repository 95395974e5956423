#!/usr/bin/env bash
# Times the grids that a plan could ask for, in CUDA graphs, bf16: where the rows of host/src/tuning.rs come from.
#
#   host/benches/sweep.sh DEVICES [PROGRAM]        DEVICES as in `allfold bench --devices`, PROGRAM default: cargo allfold
set -euo pipefail
devices=${1:?devices, as 0,1}
program=${2:-cargo allfold}
# Threads, sizes, then what the bench is asked for.
sweep() {
  local all_threads=$1 sizes=$2 threads
  shift 2
  for threads in $all_threads; do
    echo "# $*, blocks of $threads"
    $program bench --devices "$devices" --graph --dtype bf16 --threads "$threads" --bytes "$sizes" "$@" --csv -
  done
}
sweep "32 64 96 128 192 256 512" 512,1K,2K,4K,8K,16K,32K,64K,128K,256K,512K,1M,2M --algo one-shot-push
sweep "768 1024" 512K,1M,2M,4M --algo one-shot-push
sweep "384 512 768 1024" 512K,1M,2M,4M,8M,16M --algo two-shot-push
sweep "512 1024" 4M,8M,16M,32M,64M,128M,256M --algo exchange
sweep "1024" 8M,16M,64M,256M --algo one-pass --in-place
for input in memcpy copied; do
  sweep "1024" 8M,16M,64M,256M --algo exchange --input "$input"
  sweep "1024" 8M,16M,64M,256M --algo two-shot --input "$input"
done
# What a bound on the blocks costs.
for blocks in 8 16 32 66; do
  echo "# at most $blocks blocks"
  $program bench --devices "$devices" --graph --dtype bf16 --max-blocks "$blocks" --bytes 1K,64K,1M,8M,64M,256M --csv -
done
