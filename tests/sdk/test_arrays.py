"""Arrays of NumPy: into a box and back, and NumPy itself in a box."""

import shutil
import subprocess
import sys
import unittest
from pathlib import Path

import numpy as np

import glovebox as gb
from glovebox import _values
from support import BoxTest, fresh_directory

CROSSES = [np.array([1.5, -2.0, 65504.0, 2.0**-24, np.inf], "float16"), np.ones((2, 3), "float16"), np.array([], "float16"),
           *(np.arange(6).reshape(2, 3).astype(kind) for kind in (
               "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64")),
           np.arange(6, dtype=">i4"), np.arange(6, dtype=">f8").reshape(3, 2), np.array(2.5), np.array(7, "float16"),
           np.arange(10)[::3], np.arange(6.0).reshape(2, 3).T, np.asfortranarray(np.arange(6).reshape(2, 3)),
           np.broadcast_to(np.float32(3), (2, 2)), np.zeros((0,)), np.array([np.nan, -np.inf])]  # fmt: skip
REFUSED = [np.array([1 + 2j]), np.zeros(2, "complex64"), np.array([("a", 1)], [("x", "U1"), ("y", "i4")]),
           np.array([object()]), np.array(["2024-01-01"], "datetime64[s]"), np.array([3], "timedelta64[ms]"),
           np.array([b"ab"]), np.array(["ab"]), np.zeros(2, "longdouble"), np.zeros(2, "V4"), np.datetime64("2024-01-01"),
           np.complex128(1j), np.longdouble(1), np.broadcast_to(1.0, (1 << 20, 1 << 20))]  # fmt: skip


def echo(value):
    return value


def tell(value):
    return [value.format, list(value.shape), value.tolist()]


class Arrays(BoxTest):
    def test_what_is_numbers_crosses_both_ways(self):
        for backend in ("process", "cell"):
            box = self.spawn(name=backend, backend=backend)
            for value in CROSSES:
                with self.subTest(f"{backend} {value.dtype} {value.shape}"):
                    got = box.call(echo, value, timeout=60)
                    # float16 is float32 in there, which has all of its values.
                    wanted = value.astype("float32" if value.dtype == "float16" else value.dtype.newbyteorder("="))
                    self.assertEqual(got.dtype, wanted.dtype)
                    if value.size or value.ndim == 1:
                        np.testing.assert_array_equal(got, wanted, strict=True)
            self.assertEqual(box.call(tell, np.array([[0.5, 2.0]], "float16"), timeout=60), ["f", [1, 2], [[0.5, 2.0]]])

    def test_what_is_not_is_refused_by_its_name_and_the_box_goes_on(self):
        box = self.spawn()
        for value in REFUSED:
            with self.subTest(str(getattr(value, "dtype", ""))):
                with self.assertRaises(gb.UnsendableValue):
                    box.call(echo, value, timeout=60)
                with self.assertRaises(gb.UnsendableValue):
                    box.post(value)
                self.assertEqual(box.call(echo, 1, timeout=60), 1)
        with self.assertRaisesRegex(gb.UnsendableValue, "complex128 does not cross; numbers do: send its .real and .imag"):
            _values.encode({}, {"value": np.array([1j])})

    def test_numbers_of_numpy_are_numbers(self):
        box = self.spawn()
        for value in (np.float16(1.5), np.float32(1.5), np.float64(1.5), np.int8(-3), np.uint64(2**63), np.bool_(True)):
            with self.subTest(value.dtype):
                got = box.call(echo, value, timeout=60)
                self.assertEqual((got, type(got)), (value.item(), type(value.item())))

    def test_a_handler_may_answer_with_an_array(self):
        box = self.spawn(handlers={"data": lambda action, payload: np.array([0.5, 1.5], action)})
        for kind in ("float16", "float64"):
            box.exec(f"post(request('data', '{kind}').tolist())")
            self.assertEqual(box.recv(60), [0.5, 1.5])
        box.exec("request('data', 'complex64')")
        with self.assertRaisesRegex(gb.GuestError, "does not cross"):
            box.recv(60)

    def test_what_a_guest_sends_need_not_be_contiguous(self):
        box = self.spawn()
        box.exec("grid = memoryview(bytes(range(12))).cast('B', [12])\npost(grid[::3])\npost(grid[::-1])")
        self.assertEqual([box.recv(60).tolist(), box.recv(60).tolist()], [[0, 3, 6, 9], list(range(11, -1, -1))])


class NumpyInside(BoxTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.home = fresh_directory()
        cls.addClassCleanup(shutil.rmtree, cls.home, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(cls.home / "venv")], check=True)
        packages = next((cls.home / "venv").glob("lib/python3*/site-packages"))
        installed = Path(np.__file__).parent
        for name in ("numpy", "numpy.libs"):
            shutil.copytree(installed.parent / name, packages / name, ignore=shutil.ignore_patterns("tests", "__pycache__"))

    def test_numpy_brings_its_submodules(self):
        box = self.spawn(interpreter=str(self.home / "venv/bin/python3"), capabilities=[gb.Import("numpy")])
        box.exec("import numpy as np\nimport numpy.linalg\nfrom numpy import fft, random\nfrom numpy.polynomial import Polynomial\n"
                 "half = np.asarray(recv())\n"
                 "post([float(numpy.linalg.norm([3, 4])), fft.fft([1, 0]).real.tolist(), int(random.default_rng(1).integers(1)),"
                 " float(Polynomial([1, 2])(3)), str(half.dtype), half.tolist()])\npost(half.T[::2])")
        box.post(np.array([[0.5, 1.0], [2.0, 4.0]], "float16"))
        self.assertEqual(box.recv(60), [5.0, [1.0, 1.0], 0, 7.0, "float32", [[0.5, 1.0], [2.0, 4.0]]])
        self.assertEqual(box.recv(60).tolist(), [[0.5, 2.0]])
        with self.assertRaises(gb.PolicyError):
            box.exec("import json").wait(60)


if __name__ == "__main__":
    unittest.main()
