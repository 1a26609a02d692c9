#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gdb.py HIPSIM CLANG: tests the server for GDB. A client of GDB's remote protocol stops a kernel, reads its state,
steps it, and lets it end."""
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

HIPSIM, CLANG = (os.path.realpath(path) for path in sys.argv[1:3])
SHARED_APERTURE = 0x1000000000000
SECONDS = 60

SOURCE = """
__kernel void axpy(const __global float *x, __global float *y, float a, int n)
{
    __local int shared[128];
    const int lane = __builtin_amdgcn_workitem_id_x(), i = 128 * __builtin_amdgcn_workgroup_id_x() + lane;

    shared[lane] = 100 + lane;
    __builtin_amdgcn_s_barrier();
    if (i < n)
        y[i] += a * x[i] + shared[lane ^ 1];
}
__kernel void spin(__global int *x)
{
    for (unsigned i = 0; i < 2000000000; i++)
        __builtin_amdgcn_s_sleep(0);
    *x = 1;
}
"""

# A program that runs a kernel, then runs it in a forked child when a line of input comes, then runs a kernel that does
# not end.
FORKS = """
import ctypes, os, sys
hip, module, memory = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p(), ctypes.c_void_p()
def run(name, blocks):
    kernel, at, n = ctypes.c_void_p(), ctypes.c_void_p(memory.value), ctypes.c_int(0)
    arguments = [ctypes.addressof(at)] if name == b"spin" else [ctypes.addressof(x) for x in (at, at, n, n)]
    assert hip.hipModuleGetFunction(ctypes.byref(kernel), module, name) == 0
    assert hip.hipModuleLaunchKernel(kernel, blocks, 1, 1, 64, 1, 1, 0, None, (ctypes.c_void_p * 4)(*arguments), None) == 0
    assert hip.hipDeviceSynchronize() == 0
assert hip.hipModuleLoad(ctypes.byref(module), sys.argv[2].encode()) == 0
assert hip.hipMalloc(ctypes.byref(memory), ctypes.c_size_t(4)) == 0
run(b"axpy", 1)
print("ran", flush=True)
sys.stdin.readline()
child = os.fork()
if not child:
    run(b"axpy", 2000)
    os._exit(0)
print(os.waitpid(child, 0)[1], flush=True)
run(b"spin", 1)
"""


class Client:
    """Sends packets to a server and reads its replies."""

    def __init__(self, address):
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.settimeout(SECONDS)
        self.socket.connect(address)
        self.bytes, self.quiet = b"", False

    def byte(self):
        """Returns the next byte of the connection; none at its end."""
        if not self.bytes:
            self.bytes = self.socket.recv(1 << 16)
        first, self.bytes = self.bytes[:1], self.bytes[1:]
        return first

    def send(self, text, total=None):
        """Sends a packet and returns the server's acknowledgement, + or -. `total` is the checksum to send; None: the
        right one."""
        total = sum(text.encode()) % 256 if total is None else total
        self.socket.sendall(b"$%s#%02x" % (text.encode(), total))
        return "+" if self.quiet else self.byte().decode()

    def reply(self):
        """Returns the next packet's text; None: the connection is closed."""
        while (mark := self.byte()) != b"$":
            if not mark:
                return None
        text = b""
        while (one := self.byte()) != b"#":
            text += one
        total = int(self.byte() + self.byte(), 16)
        assert total == sum(text) % 256, text
        if not self.quiet:
            self.socket.sendall(b"+")
        return text.decode()

    def ask(self, text):
        """Sends a packet that the server must acknowledge. Returns the reply."""
        assert self.send(text) == "+", text
        return self.reply()

    def monitor(self, command):
        """Runs a command of hipsim's monitor and returns its text."""
        reply = self.ask("qRcmd," + command.encode().hex())
        return "" if reply == "OK" else bytes.fromhex(reply).decode()


class Server(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        source, cls.object = (os.path.join(cls.folder.name, name) for name in ("k.cl", "k.co"))
        with open(source, "w", encoding="utf-8") as f:
            f.write(SOURCE)
        cls.compile(source, "gfx942", cls.object)

    @staticmethod
    def compile(source, target, path):
        """Compiles an OpenCL file to a code object for a target."""
        subprocess.run([CLANG, "-O1", "-g", "-target", "amdgcn-amd-amdhsa", "-mcpu=" + target, "-nogpulib", "-mcode-object-version=5",
                        source, "-o", path, "-w"], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def start(self, address, kernel="axpy", options=(), path=None):
        """Starts a program with a server at `address`. Returns a client; self.program is the process."""
        arguments = ["--arg", "f32:384=ramp", "--arg", "f32:384=1", "--arg", "f32=0.5", "--arg", "i32=384", "--print", "1:3"]
        command = [HIPSIM, "--gdb", address, *options, "run", path or self.object, "--kernel", kernel, "--grid", "3", "--block", "128",
                   *(arguments if kernel == "axpy" else ["--arg", "i32:1=0"])]
        self.program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True)
        self.addCleanup(self.program.wait, SECONDS)
        self.addCleanup(self.program.kill)
        self.addCleanup(self.program.stdout.close)
        line = self.program.stdout.readline()
        where = re.fullmatch(r"hipsim: gdb may connect to (127\.0\.0\.1:)?(.*)\n", line)
        self.assertTrue(where, line)
        client = Client(("127.0.0.1", int(where[2])) if where[1] else where[2])
        self.addCleanup(client.socket.close)
        return client

    def path(self):
        """Returns a path for the socket of a test's server."""
        return os.path.join(self.folder.name, self.id().split(".")[-1])

    def read_description(self, client, gfx="gfx942", lanes=64):
        """Returns the registers of the target description, in its order, as (name, bits)."""
        text, more = "", "m"
        while more == "m":
            part = client.ask(f"qXfer:features:read:target.xml:{len(text):x},ffb")
            more, text = part[0], text + part[1:]
        target = xml.fromstring(text)
        self.assertEqual(target.findtext("architecture"), "amdgcn:" + gfx)
        vector = target.find("feature/vector")
        self.assertEqual((vector.get("type"), vector.get("count")), ("uint32", str(lanes)))
        return [(r.get("name"), int(r.get("bitsize"))) for r in target.iter("reg")]

    def test_a_stopped_wave_is_read_and_resumed(self):
        client = self.start(self.path())
        self.assertIn("qXfer:features:read+", client.ask("qSupported:xmlRegisters=i386"))
        self.assertEqual(client.ask("?"), "T05thread:1;")
        self.assertEqual(client.ask("qfThreadInfo"), "m1,2")
        self.assertEqual(client.ask("qsThreadInfo"), "l")
        self.assertEqual(bytes.fromhex(client.ask("qThreadExtraInfo,2")), b"workgroup (0, 0, 0), wave 1")
        registers = self.read_description(client)
        number = {name: i for i, (name, _) in enumerate(registers)}
        self.assertEqual([name for name, _ in registers[6:8] + registers[-1:]], ["s0", "s1", "a255"])
        read = lambda name: client.ask(f"p{number[name]:x}")
        scalars = client.ask("g")
        self.assertEqual(len(scalars), sum(bits for _, bits in registers[:6 + 106]) // 4)
        self.assertEqual(scalars[16:32], "f" * 16)  # EXEC
        self.assertEqual(scalars[:16], read("pc"))
        self.assertEqual(struct.unpack("<64I", bytes.fromhex(read("v0"))), tuple(range(64)))
        self.assertEqual(read("v9"), "x" * 512)
        self.assertEqual(read("a0"), "x" * 512)
        self.assertEqual(client.ask("Hg2"), "OK")
        self.assertEqual(struct.unpack("<64I", bytes.fromhex(read("v0"))), tuple(range(64, 128)))
        # A step also ends when another wave stops at a breakpoint.
        self.assertEqual(client.ask("vCont;s:1"), "T05thread:2;")
        self.assertEqual(client.monitor("d"), "")
        self.assertEqual(client.ask("vCont;s:2"), "T05thread:2;")
        self.assertEqual(self.pc(client) % 4, 0)
        self.assertEqual(client.ask("D"), "OK")
        self.assertIsNone(client.reply())
        self.assertIn("argument 1: 102 101.5 105", self.program.stdout.read())
        self.assertEqual(self.program.wait(), 0)

    def pc(self, client):
        """Returns the program counter of the stopped wave."""
        return int.from_bytes(bytes.fromhex(client.ask("p0")), "little")

    def test_places_stores_and_memory(self):
        client = self.start("0")
        self.assertEqual(client.ask("QStartNoAckMode"), "OK")
        client.quiet = True
        entry = self.pc(client)
        self.assertEqual(client.ask("d"), "")
        self.assertIn("axpy", client.monitor("i"))
        client.monitor("d")
        self.assertEqual(client.ask(f"Z2,{SHARED_APERTURE + 4 * 3:x},4"), "OK")
        self.assertEqual(client.ask("c"), f"T05thread:1;watch:{SHARED_APERTURE + 12:x};")
        after = self.pc(client)
        self.assertGreater(after, entry)
        words = struct.unpack("<4I", bytes.fromhex(client.ask(f"m{SHARED_APERTURE:x},10")))
        self.assertEqual(words, (100, 101, 102, 103))
        self.assertEqual(client.ask(f"z2,{SHARED_APERTURE + 4 * 3:x},4"), "OK")
        self.assertEqual(client.ask(f"Z0,{after:x},4"), "OK")
        self.assertEqual(client.ask("c"), "T05thread:2;")
        self.assertEqual(self.pc(client), after)
        code = client.ask(f"m{entry:x},8")
        with open(self.object, "rb") as f:
            self.assertIn(bytes.fromhex(code), f.read())
        self.assertEqual(client.ask("s"), "T05thread:2;")
        self.assertNotEqual(self.pc(client), after)
        self.assertEqual(client.ask(f"z0,{after:x},4"), "OK")
        self.assertEqual(client.ask("vCont;c"), "W00")
        self.assertIn("argument 1: 102 101.5 105", self.program.stdout.read())

    def test_masks_have_a_bit_for_each_lane(self):
        path = os.path.join(self.folder.name, "wave32.co")
        self.compile(os.path.join(self.folder.name, "k.cl"), "gfx1250", path)
        client = self.start(self.path(), options=["--target", "gfx1250"], path=path)
        registers = self.read_description(client, "gfx1250", 32)
        self.assertEqual(registers[1:3], [("exec", 32), ("vcc", 32)])
        self.assertEqual(len(client.ask("g")), sum(bits for _, bits in registers[:6 + 106]) // 4)
        self.assertEqual(client.ask("p1"), "f" * 8)
        client.monitor("d")
        for _ in range(100):  # the comparison of i and n writes VCC
            client.ask("s")
            if "x" not in client.ask("p2"):
                break
        self.assertEqual(client.ask("p2"), "f" * 8)

    def test_bad_requests_are_refused_by_a_sentence(self):
        client = self.start(self.path(), options=["--break", "axpy"])
        for request, why in [
                ("pfff", "no such register"), ("pz", "no such register"), ("Hg99", "no such wave"), ("T99", "no such wave"),
                ("Hx0", "no such wave"), ("qThreadExtraInfo,z", "no such wave"), ("m10,4", "no memory of the device"),
                ("m10", "address and length"), ("m,4", "address and length"), ("M10,1:00", "can only be read"),
                ("G00", "can only be read"), ("P1=00", "can only be read"), ("Z0,10,4", "no instruction of this kernel"),
                ("Z0,zz,4", "type, address and kind"), ("z0,10,4", "was not set"), ("z2,10,4", "was not set"),
                ("Z2,10,0", "no range of bytes"), ("Z2,10,ffffffffffffffff", "no range of bytes"), ("qRcmd,686", "not two digits"),
                ("qRcmd, 6 9", "not two digits"), ("qRcmd,6g", "not two digits"),
                ("c100", "goes on where it has stopped"), ("vCont;s:99", "no such action"),
                ("vCont;t", "no such action"), ("qXfer:features:read:target.xml:zz,1", "offset and length"),
                ("qXfer:features:read:target.xml:ffffff,1", "no such offset"), ("m" + "0" * 5000, "packets of 4096 bytes")]:
            reply = client.ask(request)
            self.assertRegex(reply, r"^E\." + ".*" + why, request)
        self.assertIn("client's own commands", client.monitor("c"))
        # Refused commands take no room, however many there are.
        for command in ("w 0x10 0", "w 0x10 5x", "w 0xffffffffffffffff 8") * 40:
            self.assertIn("not understood", client.monitor(command))
        self.assertEqual(client.monitor("w 0x10 4"), "")
        self.assertNotIn("not understood", client.monitor("d"))
        # Sets breakpoints at 24 dwords. One in the second half of an instruction of 8 bytes is refused.
        at = self.pc(client)
        sizes = [client.ask("Z0,%x,4" % (at + 4 * i)) for i in range(24)]
        self.assertTrue(any(re.match(r"^E\..*inside of an instruction", reply) for reply in sizes), sizes)
        self.assertEqual(sizes[0], "OK")
        self.assertIn(client.monitor("d"), ("", "OK"))
        for command in ("z", ""):
            self.assertIn(f"not understood: {command} (h lists", client.monitor(command))
        self.assertEqual(client.ask("Z4,10,4"), "")
        self.assertEqual(client.ask("vMustReplyEmpty"), "")
        self.assertEqual(client.send("?", total=0), "-")
        self.assertEqual(client.send("?"), "+")
        self.assertEqual(client.reply(), "T05thread:1;")
        client.socket.close()
        self.assertIn("argument 1: 102 101.5 105", self.program.stdout.read())

    def test_a_running_program_is_interrupted_and_killed(self):
        client = self.start(self.path(), kernel="spin")
        self.assertEqual(client.ask("?"), "T05thread:1;")
        client.monitor("d")
        self.assertEqual(client.send("c"), "+")
        client.socket.sendall(b"\x03")
        self.assertRegex(client.reply(), "^T02thread:[0-9a-f]+;$")
        self.assertEqual(client.send("k"), "+")
        self.assertIsNone(client.reply())
        self.assertEqual(self.program.wait(), 1)

    def test_a_process_is_killed_with_a_reply(self):
        client = self.start(self.path(), kernel="spin")
        self.assertEqual(client.ask("vKill;1"), "OK")
        self.assertIsNone(client.reply())
        self.assertEqual(self.program.wait(), 1)

    def test_a_path_is_free_after_its_server_was_killed(self):
        self.start(self.path(), kernel="spin")
        self.program.kill()
        self.program.wait()
        self.assertTrue(os.path.exists(self.path()))
        self.assertEqual(self.start(self.path()).ask("?"), "T05thread:1;")

    def test_a_forked_child_leaves_the_server_to_its_parent(self):
        library = os.path.join(os.path.dirname(HIPSIM), "../hip/libamdhip64.so.5")
        program = ("import ctypes, os, sys\n"
                   f"hip = ctypes.CDLL({library!r})\n"
                   "assert hip.hipInit(0) == 0\n"
                   "print('listens', os.path.exists(sys.argv[1]))\n"
                   "sys.stdout.flush()\n"
                   "child = os.fork()\n"
                   "if child:\n"
                   "    os.waitpid(child, 0)\n"
                   "    print('still', os.path.exists(sys.argv[1]))\n")
        done = subprocess.run([sys.executable, "-c", program, self.path()], env=dict(os.environ, HIPSIM="gdb=" + self.path()),
                              capture_output=True, text=True, check=True)
        self.assertIn("listens True", done.stdout)
        self.assertIn("still True", done.stdout)
        self.assertFalse(os.path.exists(self.path()))

    def test_a_forked_child_leaves_interrupts_to_its_parent(self):
        library = os.path.join(os.path.dirname(HIPSIM), "../hip/libamdhip64.so.5")
        self.program = subprocess.Popen([sys.executable, "-c", FORKS, library, self.object], env=dict(os.environ, HIPSIM="gdb=" + self.path()),
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(self.program.wait, SECONDS)
        self.addCleanup(self.program.kill)
        self.addCleanup(self.program.stdout.close)
        self.addCleanup(self.program.stdin.close)
        self.assertIn("gdb may connect to " + self.path(), self.program.stdout.readline())
        client = Client(self.path())
        self.addCleanup(client.socket.close)
        client.monitor("d")
        self.assertEqual(client.send("c"), "+")
        self.assertEqual(self.program.stdout.readline(), "ran\n")
        client.socket.sendall(b"\x03")
        print(file=self.program.stdin, flush=True)
        self.assertEqual(self.program.stdout.readline(), "0\n")
        self.assertRegex(client.reply(), "^T02thread:[0-9a-f]+;$")

    def test_a_place_after_an_unsupported_instruction(self):
        # The unsupported image_load has 12 bytes. Breakpoints inside it are refused, and the instruction after it takes
        # one.
        source, path = (os.path.join(self.folder.name, "image" + end) for end in (".cl", ".co"))
        with open(source, "w", encoding="utf-8") as f:
            f.write('__kernel void image(__global int *x) { __asm__ volatile("s_branch 3\\n'
                    'image_load v[0:3], v250, s[0:7] dmask:0xf dim:SQ_RSRC_IMG_1D\\ns_nop 7"); }')
        self.compile(source, "gfx1201", path)
        client = self.start(self.path(), kernel="image", options=["--target", "gfx1201"], path=path)
        entry = self.pc(client)
        client.monitor("d")
        at = entry + bytes.fromhex(client.ask(f"m{entry:x},20")).index(struct.pack("<III", 0xD3C00000, 0, 0xFA))
        for within in (4, 8):
            self.assertIn("inside of an instruction", client.ask(f"Z0,{at + within:x},4"))
        self.assertEqual(client.ask(f"Z0,{at + 12:x},4"), "OK")
        self.assertEqual(client.ask("c"), "T05thread:1;")
        self.assertEqual(self.pc(client), at + 12)

    def test_addresses_that_are_none(self):
        client = self.start(self.path())  # another program wants the address of this server, which keeps it
        for address, why in [(self.path(), "Address already in use"), ("here", "a port, or a path with /"), ("70000", "a port, or a path with /"),
                             ("/no/folder/socket", "No such file or directory"),
                             (self.object, "Address already in use"), ("/" + "a" * 200, "a port, or a path with /")]:
            done = subprocess.run([HIPSIM, "--gdb", address, "run", self.object, "--kernel", "spin", "--grid", "1", "--block", "64",
                                   "--arg", "i32:1=0"], capture_output=True, text=True, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(why, done.stderr + done.stdout)
        self.assertEqual(client.ask("?"), "T05thread:1;")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
