"""How plot.py reads, joins, scales and places labels; and that its pictures are XML with all that they should name."""

import json
import math
import os
import sys
import unittest
from xml.etree import ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import picture  # noqa: E402
import plot  # noqa: E402

HEAD = "device,backend,ranks,protocol,input,in_place,graph,date,bytes,count,type,op,algorithm,median_us,wrong"
LINE = '"2 x NVIDIA H200",cuda,2,{protocol},registered,false,true,2026-11-29T20:31:09Z,{size},1,bf16,sum,one-shot,{us},{wrong}'


def csv_text(*rows):
    full = [{"protocol": "allfold", "wrong": 0, **row} for row in rows]
    return "\n".join([HEAD, *(LINE.format(**row) for row in full)]) + "\n"


def peers_text(*rows, **more):
    report = {"gpu": "NVIDIA H200", "world": 2, "dtype": "bf16", "unit": "us", "date": "2026-11-29", "rows": rows}
    return json.dumps({**report, **more})


class Reading(unittest.TestCase):
    def test_runs_of_other_columns_are_one(self):
        one = plot.read_peers(peers_text({"bytes": 512, "nccl": 9.0}))
        other = plot.read_peers(peers_text({"bytes": 512, "sgl_1push": 2.5}, errors={"sgl_2push": "gone"}))
        both = plot.together([one, other])
        self.assertEqual(both.times, {"nccl": {512: 9.0}, "sgl_1push": {512: 2.5}})
        self.assertEqual(both.errors, {"sgl_2push": "gone"})
        with self.assertRaisesRegex(ValueError, "nccl: in two runs"):
            plot.together([one, one])
        later = plot.read_peers(peers_text({"bytes": 512, "sgl_1push": 2.5}, date="2026-11-30"))
        with self.assertRaisesRegex(ValueError, "not one"):
            plot.together([one, later])

    def test_csv_and_json_are_the_same(self):
        text = csv_text({"size": 512, "us": 4.5}, {"protocol": "vllm", "size": 512, "us": 3.5}, {"size": 1024, "us": 5})
        from_csv = plot.read_ours(text, "allfold", "bf16")
        self.assertEqual(from_csv.times, {512: 4.5, 1024: 5.0})
        self.assertEqual(plot.read_ours(text, "vllm", "bf16").times, {512: 3.5})
        rows = [{"bytes": size, "type": "bf16", "median_us": us, "wrong": 0} for size, us in from_csv.times.items()]
        report = {"device": "2 x NVIDIA H200", "ranks": 2, "protocol": "allfold", "graph": True, "rows": rows}
        text = json.dumps({**report, "date": "2026-11-29T20:31:09Z"})
        self.assertEqual(plot.read_ours(text, "allfold", "bf16"), from_csv)

    def test_what_is_no_comparison_is_refused(self):
        text = csv_text({"size": 512, "us": 4.5})
        for bad, why in (
            (text.replace("false,true", "false,false"), "CUDA graph"),
            (csv_text({"size": 512, "us": 4.5, "wrong": 3}), "3 wrong"),
            (csv_text({"size": 512, "us": 4.5, "protocol": "vllm"}), "no row"),
        ):
            with self.assertRaisesRegex(ValueError, why):
                plot.read_ours(bad, "allfold", "bf16")
        ours = plot.read_ours(text, "allfold", "bf16")
        for more in ({"world": 4}, {"gpu": "NVIDIA H100"}):
            with self.assertRaisesRegex(ValueError, "no comparison"):
                plot.join(ours, plot.read_peers(peers_text(**more)))

    def test_a_value_that_is_no_time_is_an_error(self):
        row = {"bytes": 512, "nccl": 6.0, "sgl_1push": "WRONG: 3 elements"}
        peers = plot.read_peers(peers_text(row, errors={"nccl_symm": "no windows"}))
        self.assertEqual(peers.times, {"nccl": {512: 6.0}})
        self.assertEqual(peers.errors, {"nccl_symm": "no windows", "sgl_1push": "at 512 bytes: WRONG: 3 elements"})


class Joining(unittest.TestCase):
    def setUp(self):
        self.ours = plot.read_ours(csv_text(*({"size": 1 << k, "us": 4.0} for k in (9, 10, 20))), "allfold", "bf16")
        rows = [{"bytes": 512, "nccl": 6.0, "sgl_1push": 2.0, "sgl_2push": 3.0}, {"bytes": 1 << 20, "nccl": 8.0}]
        self.peers = plot.read_peers(peers_text(*rows, {"bytes": 1 << 28, "nccl_symm": 9.0}))

    def test_each_of_our_sizes_gets_its_fastest_peer(self):
        small, alone, large = plot.join(self.ours, self.peers)
        self.assertEqual((small.peer, small.theirs, small.ratio), ("sgl_1push", 2.0, 2.0))
        self.assertEqual((alone.peer, alone.ratio), (None, None))
        self.assertEqual((large.size, large.peer, large.ratio), (1 << 20, "nccl", 0.5))

    def test_the_table_has_a_cell_for_each_column(self):
        lines = plot.table(plot.join(self.ours, self.peers)).splitlines()
        self.assertEqual({line.count("|") for line in lines}, {6})
        self.assertEqual(lines[2], "| 512 B | 4.00 | sgl_1push | 2.00 | 2.00 |")
        self.assertEqual(lines[4], "| 1 MB | 4.00 | nccl | 8.00 | 0.50 |")

    def test_a_project_is_its_fastest_column(self):
        lines = plot.fastest_of_projects(self.peers)
        self.assertEqual(lines["SGLang"], {512: 2.0})
        self.assertEqual(lines["NCCL"], {512: 6.0, 1 << 20: 8.0})
        self.assertEqual(lines["NCCL, symmetric"], {1 << 28: 9.0})

    def test_pictures_are_xml_and_name_their_lines(self):
        pictures = plot.pictures(self.ours, self.peers, 365.0, 1.4)
        self.assertEqual(sorted(pictures), ["bandwidth.svg", "latency.svg"])
        for svg in pictures.values():
            words = [element.text for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
            for word in ("allfold", "NCCL", "SGLang", "limit", "1 KB", "1 MB"):
                self.assertIn(word, words)
            # Its only size is not among ours.
            self.assertNotIn("NCCL, symmetric", words)
            self.assertTrue(any("2 x NVIDIA H200, 2026-11-29" in word for word in words))


class Scales(unittest.TestCase):
    def test_an_axis_is_logarithmic(self):
        scale = picture.Scale(1, 100, 500, 100)
        for value, place in ((1, 500), (10, 300), (100, 100)):
            self.assertAlmostEqual(scale(value), place)

    def test_ticks_enclose_the_values(self):
        self.assertEqual(picture.decades(1.4, 30), [1, 2, 5, 10, 20, 50])
        self.assertEqual(picture.decades(2, 50), [2, 5, 10, 20, 50])
        self.assertEqual(len(picture.decades(0.07, 365)), len(picture.decades(0.7, 3650)))

    def test_sizes_have_binary_labels(self):
        self.assertEqual([picture.size_label(size) for size in (512, 1024, 1536, 1 << 16, 1 << 20, 1 << 30)],
                         ["512 B", "1 KB", "1.5 KB", "64 KB", "1 MB", "1 GB"])  # fmt: skip
        self.assertEqual([picture.size_label(size) for size in picture.size_ticks(512, 1 << 28)],
                         ["1 KB", "4 KB", "16 KB", "64 KB", "256 KB", "1 MB", "4 MB", "16 MB", "64 MB", "256 MB"])  # fmt: skip
        self.assertEqual(picture.size_ticks(1 << 20, 1 << 22), [1 << 20, 1 << 21, 1 << 22])

    def test_the_bound_is_a_launch_or_the_link(self):
        self.assertEqual(plot.bound_us(512, 2, 365.0, 1.4), 1.4)
        self.assertAlmostEqual(plot.bound_us(365_000_000, 2, 365.0, 1.4), 1000.0)
        self.assertAlmostEqual(plot.bound_us(365_000_000, 8, 365.0, 1.4), 1750.0)
        self.assertAlmostEqual(plot.bandwidth(365_000_000, 1000.0), 365.0)


class Labels(unittest.TestCase):
    def check(self, wanted, gap, low, high):
        places = picture.spread(wanted, gap, low, high)
        ordered = [places[index] for index in sorted(range(len(wanted)), key=lambda index: wanted[index])]
        for above, below in zip(ordered, ordered[1:]):
            self.assertGreaterEqual(below - above, gap - 1e-9)
        self.assertTrue(all(low - 1e-9 <= place <= high + 1e-9 for place in places), places)
        return places

    def test_labels_that_do_not_touch_stay(self):
        self.assertEqual(self.check([10, 50, 90], 20, 0, 100), [10, 50, 90])

    def test_labels_that_touch_make_room_evenly(self):
        self.assertEqual(self.check([50, 50], 20, 0, 100), [40, 60])
        self.assertEqual(self.check([52, 50, 51], 10, 0, 100), [61, 41, 51])

    def test_labels_keep_inside(self):
        self.check([0, 0, 0, 1], 20, 0, 100)
        self.check([100, 99, 98], 20, 0, 100)
        self.check([math.sin(7 * k) * 60 + 50 for k in range(9)], 11, 0, 100)


if __name__ == "__main__":
    unittest.main()
