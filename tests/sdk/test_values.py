"""What can be said without any service: capabilities, values, functions that are sent, errors, names."""

import array
import ast
import asyncio
import concurrent.futures
import copy
import json
import multiprocessing
import pickle
import struct
import types
import unittest

import glovebox as gb
from glovebox import _values
from glovebox._request import SpawnRequest, check_name
from glovebox._service import parse_address
from glovebox._shipping import ship
from glovebox.capabilities import KINDS, collect, from_json
from glovebox.errors import guest_error, service_error
from glovebox.functions import seconds

EVERY_KIND = [
    gb.ReadPath("/srv"), gb.WritePath("/srv/out"), gb.ExecPath("/opt/bin"), gb.ConnectTCP("*.example.com", 443),
    gb.ConnectTCP("10.0.0.0/8", (8000, 8100)), gb.ListenTCP("127.0.0.1", 8080), gb.ConnectUnix("/run/x.sock"),
    gb.ResolveName("example.com"), gb.Import("json", strict=True), gb.Import("a.*"), gb.Import("*"), gb.Env("HOME"), gb.Env("HOME", "/work"), gb.Secret("key"),
    gb.Subprocess(("make", "git")), gb.Subprocess("git", allow_shell=True), gb.Clock(), gb.Random(),
    gb.Channel("news"), gb.Syscalls("sysv-ipc"), gb.CpuBudget(500), gb.MemoryBudget(1 << 20), gb.PidsBudget(8), gb.WallBudget(100),
    gb.DiskBudget(1 << 20), gb.InodeBudget(9), gb.OutputBudget(100), gb.OpenFilesBudget(16),
    gb.ConnectionsBudget(2), gb.EgressBytesBudget(1000), gb.ConnectRateBudget(20),
]  # fmt: skip


class Capabilities(unittest.TestCase):
    def test_every_kind_survives_its_json(self):
        for capability in EVERY_KIND:
            with self.subTest(capability):
                self.assertEqual(from_json(json.loads(json.dumps(capability.to_json()))), capability)
        self.assertEqual({each.kind for each in EVERY_KIND}, set(KINDS))

    def test_they_are_frozen_values(self):
        self.assertEqual(gb.ReadPath("/srv"), gb.ReadPath("/srv"))
        self.assertNotEqual(gb.ReadPath("/srv"), gb.WritePath("/srv"))
        self.assertEqual(len({gb.Import("json"), gb.Import("json")}), 1)
        with self.assertRaises(AttributeError):
            gb.Import("json").module = "os"

    def test_slips_are_found_where_they_are_made(self):
        for make in (lambda: gb.Import(""), lambda: gb.Import(3), lambda: gb.CpuBudget(0), lambda: gb.CpuBudget(True),
                     lambda: gb.ConnectTCP("a", 0), lambda: gb.ConnectTCP("a", 99999), lambda: gb.ReadPath(""),
                     lambda: gb.ReadPath("/a\0b"), lambda: gb.ConnectTCP.from_address("nowhere"),
                     lambda: gb.ConnectTCP.from_address(":80"), lambda: gb.Subprocess(()), lambda: gb.Secret("")):
            with self.subTest(make), self.assertRaises(ValueError):
                make()

    def test_an_import_is_of_a_package_unless_it_is_strict(self):
        def written(*imports):
            return [each["module"] for each in gb.AuthoritySet(imports).to_json()["allow"]]

        self.assertEqual(written(gb.Import("a")), ["a", "a.*"])
        self.assertEqual(written(gb.Import("a", strict=True)), ["a"])
        self.assertEqual(written(gb.Import("a.*"), gb.Import("a"), gb.Import("*")), ["a.*", "a", "*"])
        self.assertEqual(gb.Policy().allow_import("a").deny(gb.Import("b")).to_dict()["rules"],
                         ["allow import=a", "allow import=a.*", "deny import=b", "deny import=b.*"])
        with self.assertRaises(ValueError):
            gb.Import("a.*", strict=True)

    def test_addresses(self):
        self.assertEqual(gb.ConnectTCP.from_address("[::1]:80"), gb.ConnectTCP("::1", 80))
        self.assertEqual(gb.ConnectTCP("::1", 80).address, "[::1]:80")
        self.assertEqual(gb.ConnectTCP.from_address("a:1-9").to_json()["ports"], [1, 9])

    def test_an_unknown_kind_or_field_is_refused(self):
        for wrong in ({"kind": "root"}, {}, {"kind": "clock", "more": 1}, {"kind": "read_path"}, {"kind": ["clock"]}):
            with self.subTest(wrong), self.assertRaises(ValueError):
                from_json(wrong)

    def test_what_is_no_capability_is_refused_not_ignored(self):
        for wrong in ("read=/srv", [object()], 3, {"fs": "x"}):
            with self.subTest(wrong), self.assertRaises(TypeError):
                collect(wrong)
        by_name = collect({"authority": [gb.Clock(), gb.ReadPath("/a")], "random": gb.Random()})
        self.assertEqual(by_name.allow, (gb.Clock(), gb.ReadPath("/a"), gb.Random()))

    def test_sets(self):
        first = gb.AuthoritySet((gb.Clock(),), (gb.ReadPath("/x"),))
        both = first.merge(gb.AuthoritySet((gb.Clock(), gb.Random())))
        self.assertEqual(both.allow, (gb.Clock(), gb.Random()))
        self.assertEqual(gb.AuthoritySet.from_json(both.to_json()), both)
        with self.assertRaises(ValueError):
            gb.AuthoritySet.from_json({"version": 2})


class Values(unittest.TestCase):
    def cross(self, value):
        return _values.decode(_values.encode({"op": "post"}, {"value": value}))["value"]

    def test_what_crosses_is_the_same_on_the_other_side(self):
        for value in (None, True, 0, -(1 << 63), (1 << 64) - 1, 1.5, "", "ü\0x", b"", b"\0\xff", [], {}, [1, [2, {"a": b"x"}]],
                      {"$bytes": [0, 1]}, {"$$": {"$array": 1}}, {"$": "$"}, ["$bytes"], bytearray(b"q")):
            with self.subTest(value):
                self.assertEqual(self.cross(value), value)

    def test_tuples_are_lists_and_arrays_are_arrays(self):
        self.assertEqual(self.cross((1, (2,))), [1, [2]])
        self.assertEqual(self.cross(array.array("d", [1.5, float("inf")])), array.array("d", [1.5, float("inf")]))
        grid = memoryview(bytes(6)).cast("B", [2, 3])
        self.assertEqual(self.cross(grid).tolist(), grid.tolist())
        self.assertEqual(self.cross(memoryview(array.array("i", range(6)))[::2]), array.array("i", [0, 2, 4]))
        self.assertEqual(self.cross(memoryview(struct.pack("d", 2.5)).cast("d", [])).tolist(), 2.5)
        self.assertEqual(self.cross(array.array("d")), array.array("d"))

    def test_half_precision_is_read_without_numpy(self):
        numbers = [0.0, 1.5, -2.0, 65504.0, 2.0**-24, float("inf")]
        raw = json.dumps({"v": {"$array": [0, 12], "dtype": "float16", "shape": [2, 3]}}).encode()
        frame = struct.pack("<I", len(raw)) + raw + struct.pack("=6e", *numbers)
        self.assertEqual(_values.decode(frame)["v"].tolist(), [numbers[:3], numbers[3:]])

    def test_what_does_not_cross_is_refused_where_it_is_sent(self):
        loop = []
        loop.append(loop)
        deep = 1
        for _ in range(70):
            deep = [deep]
        for value in (float("nan"), float("inf"), {1: 2}, {1, 2}, object(), 1 << 64, "\ud800", loop, deep, lambda: 0,
                      Exception(), bytes(65 << 20), "x" * (65 << 20), memoryview(struct.pack("P", 0)).cast("P")):
            with self.subTest(type(value)), self.assertRaises(gb.UnsendableValue):
                _values.encode({}, {"value": value})

    def test_broken_messages_are_found(self):
        def binary(head, blobs=b""):
            raw = json.dumps(head).encode()
            return struct.pack("<I", len(raw)) + raw + blobs

        for frame in ("[]", "{", "1", b"", b"\1", b"\xff\xff\xff\xff{}", binary({"v": {"$bytes": [0, 9]}}, b"x"),
                      binary({"v": {"$bytes": [-1, 1]}}, b"x"), binary({"v": {"$bytes": "x"}}),
                      binary({"v": {"$array": [0, 1], "dtype": "object", "shape": [1]}}, b"x"),
                      binary({"v": {"$array": [0, 8], "dtype": "float64", "shape": [2]}}, bytes(8)),
                      binary({"v": {"$array": [0, 8], "dtype": "float64"}}, bytes(8)), "[" * 100_000,
                      '{"v":' * 5000 + "1" + "}" * 5000 + "}"):
            with self.subTest(frame[:40]), self.assertRaises(_values.BrokenMessage):
                _values.decode(frame)


def raise_guest_error():
    raise gb.GuestError("KeyError", "x", "T")


def plain(a, b=2):
    import math

    return math.sqrt(a) + b


def annotated(data: "Sequence[int]") -> "Missing":  # noqa: F821
    return len(data)


def recursive(n):
    return 1 if n == 0 else n * recursive(n - 1)


def speaks(n):
    post(n)  # noqa: F821
    return recv()  # noqa: F821


def uses_module(x):
    return json.dumps(x)


def computed_default(x=len("abc")):
    return x


async def coroutine(x):
    return x


def undecorated(function):
    return function


@undecorated
@undecorated
def decorated(x):
    return x + 1


class Holder:
    def no_self(self, x):
        return x * 2

    def with_self(self, x):
        return self.y + x

    @staticmethod
    def static(x):
        return x - 1

    @classmethod
    def of_class(cls, x):
        return cls.__name__ + x


class Shipping(unittest.TestCase):
    def runs(self, function, *args):
        shipment = ship(function)
        scope = {}
        exec(compile(ast.parse(shipment.source), "shipped", "exec"), scope)  # what the guest does
        return scope[shipment.name](*shipment.first, *args)

    def test_functions_are_sent_by_their_source(self):
        self.assertEqual(self.runs(plain, 9), 5.0)
        self.assertEqual(self.runs(recursive, 5), 120)
        self.assertEqual(self.runs(annotated, [1, 2]), 2)
        self.assertEqual(self.runs(decorated, 1), 2)
        self.assertNotIn("undecorated", ship(decorated).source)
        self.assertIn("async def", ship(coroutine).source)
        ship(speaks)

    def test_closures_without_captured_state_and_methods(self):
        def inner(n):
            return 1 if n == 0 else n * inner(n - 1)

        self.assertEqual(self.runs(inner, 4), 24)
        self.assertEqual(self.runs(Holder.static, 3), 2)
        self.assertEqual(self.runs(Holder().no_self, 3), 6)
        self.assertEqual(self.runs(Holder.no_self, None, 3), 6)

    def test_what_cannot_be_sent_is_refused_with_the_reason(self):
        captured = 3

        def closure(x):
            return x + captured

        made = types.FunctionType(compile("lambda: 0", "nowhere", "eval"), {})
        for function, reason in ((closure, "captured captured"), (lambda x: x, "no name"), (len, "written in Python"),
                                 (uses_module, "uses json"), (computed_default, "computed"), (made, "source"),
                                 (Holder().with_self, "object of Holder"), (Holder.of_class, "class Holder"),
                                 (Holder, "no function")):
            with self.subTest(function), self.assertRaisesRegex(gb.NotShippable, reason):
                ship(function)

    def test_the_decorator_refuses_at_once(self):
        with self.assertRaises(gb.NotShippable):
            gb.sandbox()(uses_module)
        with self.assertRaises(TypeError):
            gb.sandbox(plain)
        with self.assertRaises(ValueError):
            gb.Pipeline().add_stage("extract")
        wrapped = gb.sandbox()(plain)
        self.assertEqual((wrapped.__name__, wrapped.__wrapped__), ("plain", plain))


class Requests(unittest.TestCase):
    def body(self, **options):
        return SpawnRequest(name="x", **options).to_body(idle_timeout=None)

    def test_names(self):
        for wrong, reason in (("", "non-empty"), (None, "non-empty"), (b"x", "non-empty"), ("x" * 65, "too long"),
                              ("a b", "invalid"), ("../x", "invalid"), ("a\0", "invalid"), ("é", "invalid")):
            with self.subTest(wrong), self.assertRaisesRegex(ValueError, reason):
                check_name(wrong)
        self.assertEqual(check_name("A-z_0"), "A-z_0")

    def test_nothing_of_the_environment_is_passed_on(self):
        self.assertEqual(self.body()["env_passthrough"], {"mode": "allow", "keys": []})
        self.assertEqual(self.body(env={"A": "b"})["capabilities"]["allow"], [{"kind": "env", "name": "A", "value": "b"}])

    def test_quotas_are_budgets_and_imports_are_united(self):
        body = self.body(cpu_ms=1, mem_bytes=2, wall_time_ms=3, open_files_max=4, output_bytes_max=5, child_work_max=6,
                         allowed_imports=["json"], capabilities=[gb.Import("math")])
        self.assertEqual({each["kind"] for each in body["capabilities"]["allow"]},
                         {"cpu_budget", "memory_budget", "wall_budget", "open_files_budget", "output_budget",
                          "pids_budget", "import"})
        self.assertEqual([each["module"] for each in body["capabilities"]["allow"] if each["kind"] == "import"],
                         ["math", "math.*", "json", "json.*"])

    def test_backends(self):
        self.assertEqual(gb.SUPPORTED_BACKENDS, ("process", "cell", "microvm"))
        self.assertIn("process", gb.IMPLEMENTED_BACKENDS)
        with self.assertRaisesRegex(ValueError, "one of: process, cell, microvm"):
            self.body(backend="subinterpreter")

    def test_an_unknown_option_is_refused(self):
        with self.assertRaises(TypeError):
            self.body(numa_node=1)

    def test_policies(self):
        self.assertEqual(self.body(policy="python")["policy"], "python")
        self.assertEqual(self.body(policy="a#b")["policy"], {"name": "a", "sandbox": "b"})
        self.assertEqual(self.body(policy={"version": 1})["policy"], {"document": {"version": 1}})
        for document in ({"version": 1.0, "memory": 1e9, "cpus": 0.5, "a": [{"b": 2.0}]},):
            text = json.dumps(self.body(policy=document)["policy"]["document"])
            self.assertEqual(text, '{"version": 1, "memory": 1000000000, "cpus": 0.5, "a": [{"b": 2}]}')
        with self.assertRaises(gb.PolicyCompilerError):
            self.body(policy="./not-there.yaml")
        with self.assertRaises(TypeError):
            self.body(policy=3)

    def test_addresses_of_services(self):
        self.assertEqual(parse_address("/run/x", "").socket, "/run/x")
        self.assertEqual(parse_address("unix:///run/x", "").socket, "/run/x")
        self.assertEqual(parse_address("127.0.0.1:1", "t").url, "http://127.0.0.1:1")
        self.assertNotIn("hush", repr(parse_address("127.0.0.1:1", "hush")))
        for wrong in ("ftp://x", "http://", "http://a/b", "http://u:p@h"):
            with self.subTest(wrong), self.assertRaises(gb.ServiceNotFound):
                parse_address(wrong, "")

    def test_durations(self):
        self.assertEqual([seconds(each) for each in (None, 2, "30s", "500ms", "2m", "1h", "1.5")],
                         [None, 2, 30, 0.5, 120, 3600, 1.5])
        for wrong in ("x", "", "-1s", 0, True, "1d"):
            with self.subTest(wrong), self.assertRaises(ValueError):
                seconds(wrong)


class Errors(unittest.TestCase):
    def test_classes_are_what_their_names_say(self):
        import builtins

        self.assertTrue(issubclass(gb.TimeoutError, builtins.TimeoutError))
        self.assertTrue(issubclass(gb.PolicyAuthError, gb.PolicyError))
        self.assertTrue(issubclass(gb.PolicyCompilerError, ValueError))
        self.assertTrue(issubclass(gb.FileMissing, FileNotFoundError))
        for name in gb.errors.__all__:
            self.assertTrue(issubclass(getattr(gb, name), gb.SandboxError), name)

    def test_budgets_have_errors_of_their_own(self):
        for reason, kind in (("cpu", gb.CPUExceeded), ("memory", gb.MemoryExceeded), ("wall", gb.WallTimeExceeded),
                             ("output", gb.OutputExceeded), ("open_files", gb.OpenFilesExceeded),
                             ("pids", gb.ChildWorkExceeded), ("connections", gb.NetworkExceeded), ("?", gb.BudgetExceeded)):
            error = guest_error({"kind": "budget", "reason": reason, "message": "m"})
            self.assertIs(type(error), kind)
            self.assertEqual(str(error), "m")

    def test_a_guests_error_is_text_whatever_it_sent(self):
        for wrong in (None, [], 3, {}, {"type": 3, "message": [], "kind": {}}):
            self.assertIsInstance(guest_error(wrong), gb.GuestError)
        error = guest_error({"type": "ValueError", "message": "no", "traceback": "T"})
        self.assertEqual((str(error), error.type, error.traceback), ("ValueError: no", "ValueError", "T"))

    def test_all_of_them_cross_process_pools(self):
        denial = gb.DenialEvent("cell", "read_path", "open:/x", "authority:read_path")
        made = {
            gb.GuestError: gb.GuestError("KeyError", "x", "Traceback"),
            gb.SandboxEnded: gb.SandboxEnded("gone", "crash"),
            gb.PolicyError: gb.PolicyError("no", denial_event=denial),
            gb.BudgetExceeded: guest_error({"kind": "budget", "reason": "odd", "message": "m"}),
            gb.ServiceError: gb.ServiceError("m", 500, "ODD"),
            gb.FileMissing: gb.FileMissing("m", 404, "FILE_NOT_FOUND"),
            gb.CommitRefused: gb.CommitRefused("m", 409, "COMMIT_REFUSED", [{"path": "a"}], [{"path": "b"}]),
        }
        kinds, seen = [gb.SandboxError], []
        while kinds:
            kind = kinds.pop()
            seen.append(kind.__name__)
            kinds += kind.__subclasses__()
            error = made.get(kind) or kind("m")
            error.note = ["of the caller's own"]
            copies = {"copy": copy.copy(error), "deepcopy": copy.deepcopy(error)}
            for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
                copies[f"pickle {protocol}"] = pickle.loads(pickle.dumps(error, protocol))
            for how, again in copies.items():
                with self.subTest(kind.__name__, how=how):
                    self.assertIs(type(again), kind)
                    self.assertEqual((str(again), again.args, vars(again)), (str(error), error.args, vars(error)))
        self.assertEqual(set(gb.errors.__all__) - set(seen), set())
        self.assertEqual(pickle.loads(pickle.dumps(made[gb.PolicyError])).denial_event, denial)

    def test_an_error_comes_out_of_a_process_pool(self):
        with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
            with self.assertRaisesRegex(gb.GuestError, "KeyError: x") as caught:
                pool.submit(raise_guest_error).result(60)
        self.assertEqual(caught.exception.traceback, "T")

    def test_answers_of_the_service(self):
        for status, code, kind in ((400, "", gb.InvalidRequest), (401, "", gb.PolicyAuthError), (403, "", gb.AccessRefused),
                                   (404, "FILE_NOT_FOUND", gb.FileMissing), (404, "SESSION_NOT_FOUND", gb.SandboxEnded),
                                   (409, "COMMIT_REFUSED", gb.CommitRefused), (429, "", gb.TooBusy), (500, "", gb.ServiceError),
                                   (503, "NOT_SUPPORTED", gb.NotSupported)):
            self.assertIsInstance(service_error(status, {"code": code, "message": "m"}), kind)
        self.assertIn("502", str(service_error(502, None)))


class BlockingCoroutines(unittest.TestCase):
    def test_a_coroutine_that_would_wait_is_refused(self):
        from glovebox._drive import run

        async def waits():
            await asyncio.sleep(0)

        with self.assertRaises(RuntimeError):
            run(waits())


if __name__ == "__main__":
    unittest.main()
