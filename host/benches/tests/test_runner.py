"""What becomes of a run whose workers fail: those that stand still, that die, that say why. Needs no GPU and no PyTorch."""

import json
import multiprocessing
import os
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "peers"))

from runner import Table, run_family  # noqa: E402

COLUMNS = ("good", "bad", "also_good")
SIZES = (512, 1024)


def worker(rank, world, pipe, gate, fault, columns):
    """Stands in for a worker: column `bad` has a fault at its second size."""
    os.setsid()
    gate[rank] += 1
    if fault == "setup":
        pipe.send(("failed", "no set-up"))
        os._exit(0)
    if rank == 0:
        pipe.send(("about", {"gpu": "none"}))
    for column in columns:
        for size in SIZES:
            if rank == 0:
                pipe.send(("at", column, size))
            if (column, size) == ("bad", 1024):
                if fault == "still":
                    time.sleep(60)
                if fault == "dead":
                    os._exit(3)
                if fault == "said":
                    pipe.send(("failed", f"fault of {rank}"))
                    os._exit(0)
            if rank == 0:
                pipe.send(("ran", column, size, ["kernel"]))
                pipe.send(("is", column, size, 1.5))
    pipe.send(("done",))
    os._exit(0)


class Runs(unittest.TestCase):
    def run_with(self, fault, end_in=120.0, step_s=30.0):
        with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w", encoding="utf-8") as nowhere:
            path = os.path.join(folder, "table.json")
            table = Table(path, world=2)
            said, sys.stdout = sys.stdout, nowhere
            try:
                context = multiprocessing.get_context("spawn")
                end = time.monotonic() + end_in
                run_family(context, worker, 2, lambda: (fault,), COLUMNS, table, end, setup_s=60.0, step_s=step_s)
            finally:
                sys.stdout = said
            with open(path, encoding="utf-8") as file:
                self.assertEqual(json.load(file), table.report())
            return table

    def check_others(self, table):
        for column in ("good", "also_good"):
            self.assertEqual([table.rows[size][column] for size in SIZES], [1.5, 1.5], column)
        self.assertEqual(list(table.errors), ["bad"])
        self.assertEqual(table.rows[512]["bad"], 1.5)
        self.assertTrue(table.rows[1024]["bad"].startswith("failed: "))

    def test_all_is_well(self):
        report = self.run_with(None).report()
        self.assertEqual(report["errors"], {})
        self.assertEqual(report["gpu"], "none")
        self.assertEqual(report["rows"], [{"bytes": size, **dict.fromkeys(COLUMNS, 1.5)} for size in SIZES])
        self.assertEqual(report["kernels"]["good"], {"512": ["kernel"], "1024": ["kernel"]})

    def test_a_column_that_stands_still_is_left(self):
        table = self.run_with("still", step_s=2.0)
        self.check_others(table)
        self.assertEqual(table.errors["bad"], "at 1024 bytes: not done after 2 s")

    def test_a_worker_that_dies_is_noticed(self):
        table = self.run_with("dead")
        self.check_others(table)
        self.assertIn("ended without a word", table.errors["bad"])

    def test_every_rank_that_fails_is_heard(self):
        table = self.run_with("said")
        self.check_others(table)
        self.assertIn("rank 0: fault of 0; rank 1: fault of 1", table.errors["bad"])

    def test_a_set_up_that_fails_fails_all_its_columns(self):
        table = self.run_with("setup")
        self.assertEqual(list(table.errors), list(COLUMNS))
        self.assertEqual(table.rows, {})

    def test_time_that_is_used_up_is_said(self):
        table = self.run_with(None, end_in=-1.0)
        self.assertTrue(all("used up" in text for text in table.errors.values()))


if __name__ == "__main__":
    unittest.main()
