"""Runs the columns of a family in worker processes, one a GPU, and goes on without a column that fails or stands still.

Nothing here knows PyTorch, so that it is tested on any machine. A worker writes to its pipe:

    ("about", {...})               what the JSON says of the machine; rank 0
    ("at", column, bytes)          what begins now; rank 0
    ("is", column, bytes, value)   what came out: microseconds, or text that says what is wrong; rank 0
    ("ran", column, bytes, names)  kernels that a call launched; rank 0
    ("failed", text)               the rank gives up, and its process ends
    ("done",)                      the rank is through all columns
"""

import json
import os
import signal
import time
from multiprocessing import connection

# Longest between two words of the workers: before the first column, when kernels are compiled, and after.
SETUP_S = 420.0
STEP_S = 60.0
# For the other ranks' words after one has failed: the first to be heard is not always the one to blame.
LAST_WORDS_S = 2.0


class Table:
    """What came out so far. Each change goes to the file, so that a run that is cut short leaves what it has."""

    def __init__(self, path=None, **head):
        self.path, self.head, self.rows, self.kernels, self.errors = path, head, {}, {}, {}

    def set(self, size, column, value):
        self.rows.setdefault(size, {})[column] = value
        print(f"{size:>10} {column:16} {value}", flush=True)
        self.save()

    def ran(self, size, column, names):
        self.kernels.setdefault(column, {})[str(size)] = names
        self.save()

    def fail(self, column, size, text):
        """Notes why a column ended, at a size or, with none, before the first."""
        self.errors[column] = text if size is None else f"at {size} bytes: {text}"
        if size is not None:
            self.rows.setdefault(size, {})[column] = "failed: " + text[:80]
        print(f"{size or '':>10} {column:16} failed: {text}", flush=True)
        self.save()

    def report(self):
        rows = [{"bytes": size, **self.rows[size]} for size in sorted(self.rows)]
        return {**self.head, "rows": rows, "kernels": self.kernels, "errors": self.errors}

    def save(self):
        if self.path:
            with open(self.path + ".part", "w", encoding="utf-8") as file:
                json.dump(self.report(), file, indent=1)
                file.write("\n")
            os.replace(self.path + ".part", self.path)


def run_family(context, target, world, arguments, columns, table, end, setup_s=SETUP_S, step_s=STEP_S):
    """Runs `columns` in fresh workers. After a column that failed, those that are left get workers of their own.

    `target(rank, world, pipe, gate, *arguments(), columns)` is a worker; `end` the time by which all must be over.
    """
    left = list(columns)
    while left:
        if time.monotonic() > end:
            column, size, text = None, None, "not run: the time for all columns is used up"
        else:
            column, size, text = _run(context, target, world, arguments, left, table, end, setup_s, step_s)
        if text is None:
            return
        if column is None:
            for name in left:
                table.fail(name, None, text)
            return
        table.fail(column, size, text)
        left = left[left.index(column) + 1 :]


def _run(context, target, world, arguments, columns, table, end, setup_s, step_s):
    """The column and the size at which the workers stopped, and why: `None` when they are through."""
    gate, shared = context.RawArray("q", world), arguments()
    pipes, workers = {}, []
    column = size = None
    try:
        for rank in range(world):
            ours, theirs = context.Pipe(duplex=False)
            workers.append(context.Process(target=target, args=(rank, world, theirs, gate, *shared, columns)))
            workers[-1].start()
            theirs.close()
            pipes[ours] = rank
        limit, failed = setup_s, {}
        while pipes:
            patience = LAST_WORDS_S if failed else min(limit, max(end - time.monotonic(), 0.1))
            ready = connection.wait(list(pipes), timeout=patience)
            if not ready and not failed:
                return column, size, f"not done after {patience:.0f} s"
            if not ready:
                break
            for pipe in ready:
                rank = pipes[pipe]
                try:
                    word, *rest = pipe.recv()
                except EOFError:
                    failed.setdefault(rank, f"rank {rank} ended without a word")
                    del pipes[pipe]
                    continue
                if word == "failed":
                    failed[rank] = f"rank {rank}: {rest[0]}"
                if word in ("failed", "done"):
                    del pipes[pipe]
                elif word == "about":
                    table.head.update(rest[0])
                elif word == "at":
                    (column, size), limit = rest, step_s
                elif word == "is":
                    table.set(rest[1], rest[0], rest[2])
                elif word == "ran":
                    table.ran(rest[1], rest[0], rest[2])
        if failed:
            return column, size, "; ".join(failed[rank] for rank in sorted(failed))
        return None, None, None
    finally:
        for worker in workers:
            _end(worker)


def _end(worker):
    """Ends a worker and what it started, compilers among them: it leads a process group of its own."""
    if worker.is_alive():
        try:
            os.killpg(worker.pid, signal.SIGKILL)
        except ProcessLookupError:
            worker.kill()
    worker.join(10)
