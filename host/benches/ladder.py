"""Says whether a call of any size takes longer than one of the next larger size, in a bench of allfold.

    allfold bench --graph --bytes $(python3 host/benches/ladder.py --sizes) --json ours.json
    python3 host/benches/ladder.py ours.json                  # exit code 1 where one does, by more than 3 %

Where one does, a limit between two rows of host/src/tuning.rs is in the wrong place. Python's standard library alone.
"""

import argparse
import sys

import plot


def sizes(least=512, most=256 << 20):
    """Bytes from `least` to `most`, four to each power of two, in whole packs."""
    steps = 4 * (most // least).bit_length() - 3
    return [round(least * 2 ** (step / 4)) // 16 * 16 for step in range(steps)]


def missteps(times, tolerance):
    """Pairs of neighbouring sizes of which the smaller one takes longer: (bytes, us, larger bytes, us)."""
    steps = sorted(times.items())
    pairs = zip(steps, steps[1:])
    return [(*small, *large) for small, large in pairs if small[1] > large[1] * (1 + tolerance)]


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("report", nargs="?", help="what allfold bench --json wrote")
    parser.add_argument("--sizes", action="store_true", help="print the sizes to bench: four to each power of two")
    parser.add_argument("--protocol", default="allfold")
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--tolerance", type=float, default=0.03, help="a share of the larger size's time; 0.03")
    options = parser.parse_args(arguments)
    if options.sizes:
        print(",".join(str(size) for size in sizes()))
        return 0
    if options.report is None:
        parser.error("the report of a bench is wanted")
    with open(options.report, encoding="utf-8") as file:
        times = plot.read_ours(file.read(), options.protocol, options.dtype).times
    if len(times) < 2:
        parser.error("a ladder has two sizes at least")
    found = missteps(times, options.tolerance)
    for small, small_us, large, large_us in found:
        print(f"{small} bytes take {small_us:.2f} us, {large} bytes {large_us:.2f}")
    print(f"{len(times)} sizes, {len(found)} slower than the next larger one")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
