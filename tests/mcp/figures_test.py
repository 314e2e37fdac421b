"""Figures of the published matplotlib, in the version that tests/clients pins. ./dev test installs it; elsewhere these
tests are skipped by name. repl_test has the same with a stand-in, for every tier."""
import base64
import os
import struct
import unittest

from inherit_test import McpTest
from sdk_test import needs_clients

PYTHON = os.environ.get("GLOVEBOX_CLIENTS", "") + "/python/bin/python"


def size_of(image):
    """Width and height, from the header of a PNG."""
    data = base64.b64decode(image["data"])
    assert data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR", data[:20]
    return struct.unpack(">II", data[16:24])


@needs_clients
class Matplotlib(McpTest):
    def setUp(self):
        super().setUp()
        self.start("--sandbox", "workspace-write", "--python", PYTHON)
        self.assertEqual(self.repl("from matplotlib import pyplot").text, "")

    def test_a_shown_figure_stands_where_it_was_shown(self):
        reply = self.repl("print('before')\n_ = pyplot.figure(figsize=(3, 2), dpi=100)\n"
                          "_ = pyplot.plot([1, 2], [3, 4])\npyplot.show()\nprint('after')")
        self.assertEqual([item["type"] for item in reply.content], ["text", "image", "text"], reply.text)
        self.assertEqual(reply.texts, ["before\n", "after\n"])
        self.assertEqual(reply.images[0]["mimeType"], "image/png")
        self.assertEqual(size_of(reply.images[0]), (300, 200))

    def test_a_figure_that_nobody_showed_comes_once_at_the_end(self):
        reply = self.repl("_ = pyplot.plot([1, 2], [3, 4])\nprint('x')")
        self.assertEqual([item["type"] for item in reply.content], ["text", "image"], reply.text)
        self.assertEqual(self.repl("1").images, [])

    def test_subplots_and_a_closed_figure(self):
        reply = self.repl("figure, axes = pyplot.subplots(1, 2)\n_ = axes[0].bar([1], [2])\n"
                          "pyplot.close(pyplot.figure())")
        self.assertEqual(len(reply.images), 1, reply.text)

    def test_a_backend_of_the_users_own_choice_is_used(self):
        reply = self.repl("pyplot.switch_backend('svg')\nprint(pyplot.get_backend())")
        self.assertEqual(reply.text, "svg\n")


if __name__ == "__main__":
    unittest.main()
