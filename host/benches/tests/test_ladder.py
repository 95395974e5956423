"""What ladder.py calls a misstep."""

import contextlib
import io
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import ladder  # noqa: E402
from test_plot import csv_text  # noqa: E402


class Ladder(unittest.TestCase):
    def test_a_size_that_is_slower_than_the_next_larger_one_is_a_misstep(self):
        times = {4096: 2.0, 1024: 1.5, 2048: 2.2, 8192: 1.99}
        self.assertEqual(ladder.missteps(times, 0.03), [(2048, 2.2, 4096, 2.0)])
        self.assertEqual(ladder.missteps(times, 0.2), [])
        self.assertEqual(len(ladder.missteps(times, 0)), 2)

    def test_sizes_are_four_to_a_power_of_two(self):
        sizes = ladder.sizes()
        self.assertEqual((sizes[0], sizes[4], sizes[-1]), (512, 1024, 256 << 20))
        self.assertTrue(all(size % 16 == 0 for size in sizes))
        self.assertEqual(len(set(sizes)), 4 * 19 + 1)

    def run_on(self, *rows):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "ours.csv")
            with open(path, "w", encoding="utf-8") as file:
                file.write(csv_text(*rows))
            with contextlib.redirect_stdout(io.StringIO()) as out:
                return ladder.main([path]), out.getvalue()

    def test_the_exit_code_says_it(self):
        code, said = self.run_on({"size": 512, "us": 4.5}, {"size": 1024, "us": 4.0})
        self.assertEqual(code, 1)
        self.assertIn("512 bytes take 4.50 us, 1024 bytes 4.00", said)
        code, said = self.run_on({"size": 512, "us": 4.5}, {"size": 1024, "us": 4.6})
        self.assertEqual(code, 0)
        self.assertIn("2 sizes, 0 slower", said)


if __name__ == "__main__":
    unittest.main()
