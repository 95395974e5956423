#!/usr/bin/env bash
# What each barrier costs: with a registered input both algorithms with every start and end; with a staged one the forms
# that are sound, by two banks and by an end barrier; our own forms as compiled in, of every input. bf16, calls in a CUDA
# graph, median µs of the slowest rank; a memcpy before the kernel counts. Prints a Markdown table, which docs/barriers.md
# takes in. Parity costs a registered input what none does.
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
  csv=$($program bench --devices "$devices" --graph --dtype bf16 --bytes "$sizes" "$@" --csv - 2>"$errors") || {
    echo "failed: bench $*" >&2
    cat "$errors" >&2
    return 1
  }
  # The device's name is quoted and may have commas: take it away first.
  sed 's/^"[^"]*"/device/' <<<"$csv" | awk -F, '
    NR == 1 { for (i = 1; i <= NF; i++) if ($i == "median_us") column = i; next }
    { printf " %.2f |", $column }'
}

echo "| algorithm | input | start | order | end | 1 KB, µs | 64 KB, µs |"
echo "| --- | --- | --- | --- | --- | ---: | ---: |"
# Algorithm, input, start, order, end.
row() {
  local fields
  fields=$(medians --algo "$1" --input "$2" --start "$3" --order "$4" --end "$5")
  echo "| $1 | $2 | $3 | $4 | $5 |$fields"
}
for algorithm in one-shot two-shot; do
  for start in multi-gpu block; do
    for order in volatile release-acquire; do
      for end in none barrier-volatile barrier-release-acquire; do
        row "$algorithm" registered "$start" "$order" "$end"
      done
    done
  done
done
for algorithm in one-shot two-shot; do
  for end in parity barrier-release-acquire; do
    row "$algorithm" memcpy multi-gpu release-acquire "$end"
    row "$algorithm" memcpy block release-acquire "$end"
    # A multi-GPU start is unsound where the kernel copies.
    row "$algorithm" copied block release-acquire "$end"
  done
done
# Our own protocol has kernels of its own, with nothing to decode.
for algorithm in one-shot two-shot; do
  for input in registered memcpy copied; do
    fields=$(medians --algo "$algorithm" --input "$input" --protocol allfold)
    echo "| $algorithm, \`allfold\` as compiled in | $input | | | |$fields"
  done
done
