"""Joins a bench of allfold with a run of its peers on the same host: a Markdown table, and two pictures.

    allfold bench --graph --json ours.json
    python3 host/benches/peers/peers.py --json peers.json
    python3 host/benches/plot.py --allfold ours.json --peers peers.json --out FOLDER    # latency.svg and bandwidth.svg

Python's standard library alone.
"""

import argparse
import csv
import dataclasses
import json
import os
import sys

from picture import FAINT, Line, picture, size_label

# Lines of the pictures: the projects, by how their columns begin. Of columns that fit two, the first counts.
PROJECTS = (
    ("NCCL, symmetric", "nccl_symm", "#5a8f00"),
    ("NCCL", "nccl", "#1f7a4d"),
    ("PyTorch", "torch_", "#c2570c"),
    ("vLLM", "vllm_", "#0b6bcb"),
    ("TensorRT-LLM", "trt_", "#7a4bc4"),
    ("SGLang", "sgl_", "#a8178c"),
)
OURS = "#d1242f"


@dataclasses.dataclass
class Ours:
    """A report of `allfold bench`; `times` by bytes, in microseconds."""

    device: str
    ranks: int
    protocol: str
    date: str
    times: dict


@dataclasses.dataclass
class Peers:
    """A run of peers.py; `times` by column and bytes, in microseconds."""

    gpu: str
    world: int
    dtype: str
    date: str
    times: dict
    errors: dict


@dataclasses.dataclass
class Row:
    """A size: our time, and the fastest peer's, if one has this size."""

    size: int
    ours: float
    peer: str | None = None
    theirs: float | None = None

    @property
    def ratio(self):
        """Below 1, ours is faster."""
        return None if self.theirs is None else self.ours / self.theirs


def read_ours(text, protocol, dtype):
    """What `allfold bench` wrote, JSON or CSV, of one protocol and dtype. CSV may be of several runs; the last counts."""
    if text.lstrip().startswith("{"):
        report = json.loads(text)
        rows = [{**report, **row} for row in report["rows"]]
    else:
        rows = list(csv.DictReader(text.splitlines()))
    rows = [row for row in rows if row["protocol"] == protocol and row["type"] == dtype]
    if not rows:
        raise ValueError(f"allfold's report has no row of protocol {protocol} and type {dtype}")
    if str(rows[-1]["graph"]).lower() != "true":
        raise ValueError("allfold's times are not of a CUDA graph, as the peers' are: bench with --graph")
    if wrong := sum(int(row["wrong"]) for row in rows):
        raise ValueError(f"allfold's report has {wrong} wrong elements")
    last = rows[-1]
    times = {int(row["bytes"]): float(row["median_us"]) for row in rows}
    return Ours(last["device"], int(last["ranks"]), protocol, last["date"][:10], times)


def read_peers(text):
    """What peers.py wrote. A value that is no time, text that says what went wrong, is left out."""
    report = json.loads(text)
    times, errors = {}, dict(report.get("errors", {}))
    for row in report["rows"]:
        for column, value in row.items():
            if column == "bytes":
                continue
            if isinstance(value, (int, float)):
                times.setdefault(column, {})[row["bytes"]] = float(value)
            else:
                errors.setdefault(column, f"at {row['bytes']} bytes: {value}")
    return Peers(report["gpu"], report["world"], report["dtype"], report.get("date", "")[:10], times, errors)


def together(runs):
    """Several runs of peers.py, of different columns, as one."""
    first, *others = runs
    for other in others:
        if (other.gpu, other.world, other.dtype, other.date) != (first.gpu, first.world, first.dtype, first.date):
            raise ValueError("runs of peers.py on different GPUs, or of different days or types, are not one")
        if both := sorted(set(first.times) & set(other.times)):
            raise ValueError(f"{', '.join(both)}: in two runs of peers.py")
        first = dataclasses.replace(
            first, times={**first.times, **other.times}, errors={**first.errors, **other.errors}
        )
    return first


def join(ours, peers):
    """A row for each of our sizes."""
    if ours.ranks != peers.world or peers.gpu not in ours.device:
        raise ValueError(f"{ours.ranks} ranks on {ours.device} and {peers.world} on {peers.gpu} are no comparison")
    rows = []
    for size in sorted(ours.times):
        found = [(times[size], column) for column, times in peers.times.items() if size in times]
        theirs, peer = min(found, default=(None, None))
        rows.append(Row(size, ours.times[size], peer, theirs))
    return rows


def fastest_of_projects(peers):
    """Each project's fastest time at each size: `{label: {bytes: us}}`, only of projects with a time."""
    lines = {}
    for column, times in peers.times.items():
        label = next((label for label, start, _ in PROJECTS if column.startswith(start)), column)
        line = lines.setdefault(label, {})
        for size, us in times.items():
            line[size] = min(us, line.get(size, us))
    return lines


def table(rows):
    lines = ["| bytes | allfold, µs | fastest peer | its µs | ratio |", "|---:|---:|---|---:|---:|"]
    for row in rows:
        peer = ("", "", "") if row.peer is None else (row.peer, f"{row.theirs:.2f}", f"{row.ratio:.2f}")
        lines.append(f"| {' | '.join((size_label(row.size), f'{row.ours:.2f}', *peer))} |")
    return "\n".join(lines)


def bound_us(size, ranks, gbps, floor_us):
    """The least that a call can take: a launch, or 2 (N-1)/N of its bytes over a link. For two ranks that is all of them."""
    return max(floor_us, size * 2 * (ranks - 1) / ranks / (gbps * 1e3))


def bandwidth(size, us):
    """Algorithm bandwidth in GB/s (10^9 bytes)."""
    return size / (us * 1e3)


def pictures(ours, peers, gbps, floor_us):
    """The two pictures, by file name."""
    of_projects = fastest_of_projects(peers)
    colors = {label: color for label, _, color in PROJECTS}
    sizes = sorted(ours.times)
    shown = [(label, colors.get(label, FAINT), times) for label, times in of_projects.items()]
    bound = {size: bound_us(size, ours.ranks, gbps, floor_us) for size in sizes}
    knee = floor_us * gbps * 1e3 * ours.ranks / (2 * (ours.ranks - 1))
    if sizes[0] < knee < sizes[-1]:
        bound[knee] = floor_us

    name = "allfold" if ours.protocol == "allfold" else f"allfold ({ours.protocol})"

    def lines(value):
        apply = lambda times: {size: value(size, us) for size, us in times.items() if sizes[0] <= size <= sizes[-1]}
        yield Line("limit", FAINT, apply(bound), 1.4, "5 4")
        for label, color, times in shown:
            if apply(times):
                yield Line(label, color, apply(times))
        yield Line(name, OURS, apply(ours.times), 3.2)

    dates = ours.date if ours.date == peers.date else f"allfold {ours.date}, peers {peers.date or 'without a date'}"
    subtitle = [
        f"{ours.device}, {dates}",
        f"{peers.dtype} sum in a CUDA graph, the slowest rank's median; NVLink multicast off",
        f"of each project the fastest variant at each size; limit: {floor_us:g} µs a launch, {gbps:g} GB/s over a link",
    ]
    return {
        "latency.svg": picture("All-reduce: time of a call", subtitle, "µs", list(lines(lambda _, us: us))),
        "bandwidth.svg": picture("All-reduce: algorithm bandwidth", subtitle, "GB/s", list(lines(bandwidth))),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--allfold", required=True, metavar="FILE", help="of `allfold bench --graph`, JSON or CSV")
    parser.add_argument(
        "--peers", required=True, nargs="+", metavar="FILE", help="of peers.py; several, with other columns each, are one"
    )
    parser.add_argument("--protocol", default="allfold", metavar="NAME", help="whose rows count [default: allfold]")
    parser.add_argument(
        "--out", metavar="FOLDER", help="where latency.svg and bandwidth.svg go; without it, none are drawn"
    )
    parser.add_argument(
        "--limit-gbps", type=float, default=365.0, metavar="N",
        help="what a link carries in one direction [default: 365, pushed over NVLink 4 of an H200]",
    )  # fmt: skip
    parser.add_argument(
        "--floor-us", type=float, default=1.4, metavar="N",
        help="least time of a kernel in a graph that stores to a peer and sees its answer [default: 1.4, reasoned]",
    )  # fmt: skip
    args = parser.parse_args()
    try:
        runs = []
        for path in args.peers:
            with open(path, encoding="utf-8") as file:
                runs.append(read_peers(file.read()))
        peers = together(runs)
        with open(args.allfold, encoding="utf-8") as file:
            ours = read_ours(file.read(), args.protocol, peers.dtype)
        rows = join(ours, peers)
    except (OSError, ValueError, KeyError) as error:
        print(f"plot.py: {error}", file=sys.stderr)
        return 2
    print(table(rows))
    for column, why in sorted(peers.errors.items()):
        print(f"\n`{column}`: {why}")
    if args.out:
        os.makedirs(args.out, exist_ok=True)
        for name, svg in pictures(ours, peers, args.limit_gbps, args.floor_us).items():
            with open(os.path.join(args.out, name), "w", encoding="utf-8") as file:
                file.write(svg)
    return 0


if __name__ == "__main__":
    sys.exit(main())
