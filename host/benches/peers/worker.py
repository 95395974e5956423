"""The process of one rank: the columns of one family, size after size. What it writes to its pipe is in runner.py."""

import os


def work(rank, world, pipe, gate, family, prepared, sizes, port, chain, columns):
    # A process group of its own: the parent ends it with all that it started.
    os.setsid()
    try:
        _work(rank, world, pipe, gate, family, prepared, sizes, port, chain, columns)
        pipe.send(("done",))
    except BaseException as error:  # the parent says it, and starts anew
        text = " ".join(str(error).split()) or "no more is known"
        pipe.send(("failed", f"{type(error).__name__}: {text[:400]}"))
    # Not the way through destructors: they may wait for a GPU that stands still.
    os._exit(0)


def _work(rank, world, pipe, gate, family, prepared, sizes, port, chain, columns):
    import torch
    from families import FAMILIES
    from timing import Ranks

    ranks = Ranks(rank, world, gate, port, chain)
    first = rank == 0
    if first:
        nccl = ".".join(map(str, torch.cuda.nccl.version()))
        pipe.send(("about", {"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__, "nccl": nccl}))
    with torch.cuda.stream(ranks.stream):
        # Rounded up: what lies behind a buffer of this size keeps its alignment.
        peer = FAMILIES[family](ranks, -(-max(sizes) // 4096) * 4096, prepared)
        for column in columns:
            for size in filter(lambda size: peer.fits(column, size), sizes):
                if first:
                    pipe.send(("at", column, size))
                value, kernels = ranks.measure(peer.call(column, size), size)
                if first and kernels:
                    pipe.send(("ran", column, size, kernels))
                if first:
                    pipe.send(("is", column, size, value))
