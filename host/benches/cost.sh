#!/usr/bin/env bash
# What each barrier costs: one-shot with every start and end, two-shot with every start; registered bf16 input, calls in a
# CUDA graph, median µs of the slowest rank. Prints a Markdown table. Parity costs a registered input what none does.
#
#   host/benches/cost.sh DEVICES [PROGRAM]         DEVICES as in `allfold bench --devices`, PROGRAM default: cargo allfold
set -euo pipefail
devices=${1:?devices, as 0,1}
program=${2:-cargo allfold}
sizes=1K,64K
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT

# The medians of a form, a table field for each size. A wrong result ends the script. Notes say what the form rests on.
medians() {
  local csv
  csv=$($program bench --devices "$devices" --graph --dtype bf16 --bytes "$sizes" --input registered "$@" --csv - 2>"$errors") || {
    echo "failed: bench $*" >&2
    cat "$errors" >&2
    return 1
  }
  # The device's name is quoted and may have commas: take it away first.
  sed 's/^"[^"]*"/device/' <<<"$csv" | awk -F, '
    NR == 1 { for (i = 1; i <= NF; i++) if ($i == "median_us") column = i; next }
    { printf " %.2f |", $column }'
}

echo "| algorithm | start | order | end | 1 KB, µs | 64 KB, µs |"
echo "| --- | --- | --- | --- | ---: | ---: |"
row() {
  local fields
  fields=$(medians --algo "$1" --start "$2" --order "$3" --end "$4")
  echo "| $1 | $2 | $3 | $4 |$fields"
}
for start in multi-gpu block; do
  for order in volatile release-acquire; do
    for end in none barrier-volatile barrier-release-acquire; do
      row one-shot "$start" "$order" "$end"
    done
  done
done
# The middle barrier is an end barrier already.
for start in multi-gpu block; do
  for order in volatile release-acquire; do
    row two-shot "$start" "$order" none
  done
done
# Our own protocol has kernels of its own, with nothing to decode.
for algorithm in one-shot two-shot; do
  fields=$(medians --algo "$algorithm" --protocol allfold)
  echo "| $algorithm, \`allfold\` as compiled in | | | |$fields"
done
