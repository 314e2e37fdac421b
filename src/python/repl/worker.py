"""The Python of a REPL session, inside the box.

Two processes. The pump has the run's descriptors 0 and 1 and speaks frames with the server over
them; it collects what the interpreter prints, forwards what the server says, and knows how the
interpreter ended. The interpreter executes cells. They talk over pipes that programs started by a
cell do not inherit; a child that a cell forks closes its copies.

Frames have the layout of src/python/python_protocol.h, which also says what the kinds mean. The server puts
its numbers before this text: HEADER (the size of one), the bounds, and the kinds

  from the server   CODE of a cell   INPUT for stdin   INTERRUPT   QUIT
  to the server     OUTPUT   ERROR   IMAGE   INPUT_WAIT   READY   BYE   OVER

Two kinds more pass between pump and interpreter alone: DROP interrupts that are pending, which the
interpreter answers with DROP, and SYNC.

Order: the pump empties the output pipes before it forwards any other frame, and the interpreter
waits for the pump (SYNC, answered on a pipe of its own) when it turns from one stream to the other.
The C library's own stdout, which extensions print to, has no buffer: Python is started with -u.

Standard input: the thread that reads it asks the server (INPUT_WAIT) and gets the next string (INPUT), one
thread at a time. Threads beside the main one ask only while a cell runs: with its end their wait ends, too, and
they read the end of input, so that no answer can be taken for the next cell.

Interrupts: the pump sends SIGINT only between a cell and the READY that ends it. The interpreter keeps
the signal blocked between cells, so one that comes a moment too early waits for its cell. After a cell
that was interrupted the pump answers its READY with DROP: the interpreter drops a signal that came too
late, and says DROP; only then is the server told that it is ready. So no signal hits another cell than its own,
and none is lost.

Nothing here is a wall: code in a cell can do all of this itself, and the server believes no frame.
"""
import os
import sys

DROP, SYNC = 100, 101


def frame(kind, payload=b""):
    return len(payload).to_bytes(4, "little") + bytes([kind]).ljust(HEADER - 4, b"\0") + payload


def write_all(fd, data):
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view):]


def take_frame(buffer):
    """The first whole frame of a bytearray, removed from it; None when there is none."""
    if len(buffer) < HEADER:
        return None
    end = HEADER + int.from_bytes(buffer[:4], "little")
    if len(buffer) < end:
        return None
    kind, payload = buffer[4], bytes(buffer[HEADER:end])
    del buffer[:end]
    return kind, payload


# --- the pump ------------------------------------------------------------------------------------


class Pump:
    def __init__(self, child, down, up, ack, out, err):
        self.child, self.down, self.up, self.ack = child, down, up, ack
        self.streams = {out: OUTPUT, err: ERROR}
        self.busy = True  # until the interpreter says for the first time that it is ready
        self.was_interrupted = False  # since the interpreter last said that it is ready
        self.from_server, self.from_child = bytearray(), bytearray()
        self.to_child = bytearray()

    def run(self):
        import select
        poll = select.poll()
        for fd in (0, self.up, *self.streams):
            poll.register(fd, select.POLLIN)
        while True:
            poll.modify(0, select.POLLIN)
            ready = dict(poll.poll())
            if 0 in ready and not self.on_server():
                return self.end(kill=True)
            for fd in list(self.streams):
                if fd in ready and not self.copy(fd):
                    poll.unregister(fd)
                    del self.streams[fd]
            if self.up in ready and not self.on_child():
                return self.end(kill=False)

    def copy(self, fd):
        data = os.read(fd, MOST_TEXT)
        if data:
            write_all(1, frame(self.streams[fd], data))
        return bool(data)

    def drain(self):
        """Everything that is in the output pipes at this moment; what is written later stays."""
        import fcntl
        import termios
        for fd, kind in self.streams.items():
            size = int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, bytes(4)), sys.byteorder)
            while size > 0:
                data = os.read(fd, min(size, MOST_TEXT))
                if not data:
                    break
                write_all(1, frame(kind, data))
                size -= len(data)

    def on_server(self):
        data = os.read(0, 1 << 16)
        if not data:
            return False
        self.from_server += data
        while (message := take_frame(self.from_server)) is not None:
            kind, payload = message
            if kind == INTERRUPT:
                self.interrupt()
                continue
            if kind == CODE:
                self.busy = True
            try:
                write_all(self.down, frame(kind, payload))
            except OSError:
                return True  # it ended meanwhile, and on_child() will tell
        return True

    def interrupt(self):
        import signal
        if not self.busy:
            return
        try:
            os.killpg(self.child, signal.SIGINT)
        except OSError:
            pass
        self.was_interrupted = True

    def on_child(self):
        data = os.read(self.up, 1 << 16)
        if not data:
            return False
        self.from_child += data
        while (message := take_frame(self.from_child)) is not None:
            kind, payload = message
            self.drain()
            try:
                self.take(kind, payload)
            except BrokenPipeError:
                pass  # the interpreter has ended meanwhile, and the end of its pipe will tell
        return True

    def take(self, kind, payload):
        """A frame of the interpreter."""
        if kind == READY:
            self.busy = False
            if self.was_interrupted:
                self.was_interrupted = False
                write_all(self.down, frame(DROP))
                return
        if kind in (READY, INPUT_WAIT, IMAGE, BYE, DROP):
            write_all(1, frame(READY if kind == DROP else kind, payload))
        if kind in (SYNC, IMAGE):
            os.write(self.ack, b"A")

    def end(self, kill):
        import signal
        if kill:
            try:
                os.killpg(self.child, signal.SIGKILL)
            except OSError:
                pass
        _, status = os.waitpid(self.child, 0)
        self.drain()
        if os.WIFSIGNALED(status):
            how = "signal %d" % os.WTERMSIG(status)
        else:
            how = "exit %d" % os.WEXITSTATUS(status)
        try:
            write_all(1, frame(OVER, how.encode()))
        except OSError:
            pass
        os._exit(0)


# --- the interpreter -----------------------------------------------------------------------------


class Link:
    """The interpreter's side of the pipes to the pump."""

    def __init__(self, down, up, ack):
        self.down, self.up, self.ack = down, up, ack
        self.buffer = bytearray()

    def lose(self):
        """In a forked child: nothing it does may pass for the interpreter's word."""
        for fd in (self.down, self.up, self.ack):
            if fd is not None:
                os.close(fd)
        self.down = self.up = self.ack = None

    def send(self, kind, payload=b""):
        if self.up is not None:
            write_all(self.up, frame(kind, payload))

    def sync(self):
        if self.up is not None:
            self.send(SYNC)
            self.wait_for_ack()

    def wait_for_ack(self):
        while self.ack is not None and not real_read(self.ack, 1):
            raise SystemExit  # the pump is gone

    def give_back(self, kind, payload):
        """For the next who receives."""
        self.buffer[:0] = frame(kind, payload)

    def receive(self):
        while True:
            message = take_frame(self.buffer)
            if message is not None:
                return message
            if self.down is None:
                raise SystemExit  # a forked child that ran out of its cell
            data = real_read(self.down, 1 << 16)
            if not data:
                raise SystemExit
            self.buffer += data


real_read = os.read


def high_pipe():
    """A pipe out of the way of what a cell opens."""
    import fcntl
    ends = []
    for fd in os.pipe():
        ends.append(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100))
        os.close(fd)
    return ends


def make_streams(link):
    import io

    class Stream(io.TextIOWrapper):
        """One of the two output streams. The second writer waits until what the first wrote was
        read, so that their order is kept. The writing itself is the io module's: an interrupt comes
        before or after it, never in between."""
        last = None

        def write(self, text):
            if Stream.last is not self:
                before, Stream.last = Stream.last, self
                if before is not None:
                    before.flush()
                    link.sync()
            return super().write(text)

    def stream(fd):
        return Stream(io.BufferedWriter(io.FileIO(fd, "w", closefd=False)), encoding="utf-8",
                      errors="backslashreplace", line_buffering=True)

    return stream(1), stream(2)


def make_stdin(link, flush):
    import io
    import select
    import threading

    class Stdin(io.TextIOBase):
        name, encoding, errors, mode = "<stdin>", "utf-8", "strict", "r"

        def __init__(self):
            self.pending = ""
            self.buffer = Bytes(self)
            self.turn = threading.Lock()  # of the thread that asks the server
            self.is_open = False  # to threads beside the main one
            self.over_read, self.over_write = high_pipe()

        def begin_cell(self):
            self.is_open = True

        def end_cell(self):
            """No thread waits for input any more when this returns, and no input is left over."""
            self.is_open = False
            if link.up is None:  # a forked child has the parent's pipe, and perhaps a lock that no thread will open
                self.pending = ""
                return
            os.write(self.over_write, b".")
            with self.turn:
                real_read(self.over_read, 1)
                self.pending = ""

        def fileno(self):
            return 0

        def readable(self):
            return True

        def isatty(self):
            return False

        def fill(self, prompt):
            """Asks the server for text. False at the end of input: there is none for forked children,
            and for other threads only while a cell runs."""
            if link.up is None:
                return False
            is_main = threading.current_thread() is threading.main_thread()
            with self.turn:
                if not is_main and not self.is_open:
                    return False
                flush()
                link.send(INPUT_WAIT, prompt.encode("utf-8", "replace")[:MOST_TEXT])
                while is_main or self.wait_aside():
                    kind, payload = link.receive()
                    if kind == INPUT:
                        self.pending += payload.decode("utf-8", "replace")
                        return True
                    if kind == QUIT and is_main:
                        raise SystemExit
                    if kind == QUIT:
                        link.give_back(kind, payload)
                        return False
                return False

        def wait_aside(self):
            """In a thread beside the main one: False when the cell has ended, else a frame is there."""
            if link.buffer:
                return True
            poll = select.poll()
            poll.register(self.over_read, select.POLLIN)
            poll.register(link.down, select.POLLIN)
            return self.over_read not in dict(poll.poll())

        def ask(self, prompt=""):
            if not self.pending and not self.fill(prompt):
                return ""
            line, newline, self.pending = self.pending.partition("\n")
            return line + newline

        def readline(self, size=-1):
            line = self.ask()
            if size is not None and 0 <= size < len(line):
                line, self.pending = line[:size], line[size:] + self.pending
            return line

        def read(self, size=-1):
            if size == 0 or (not self.pending and not self.fill("")):
                return ""
            if size is None or size < 0:
                size = len(self.pending)
            text, self.pending = self.pending[:size], self.pending[size:]
            return text

        def __iter__(self):
            return self

        def __next__(self):
            line = self.readline()
            if not line:
                raise StopIteration
            return line

    class Bytes(io.BufferedIOBase):
        def __init__(self, text):
            self.text = text

        def fileno(self):
            return 0

        def readable(self):
            return True

        def readline(self, size=-1):
            return self.text.readline(size).encode()

        def read(self, size=-1):
            return self.text.read(size).encode()

        read1 = read

    return Stdin()


def own_frames_left_out(where):
    """A traceback without what this file has to do with it."""
    import types
    frames = []
    while where is not None:
        if where.tb_frame.f_code.co_filename != "<glovebox>":
            frames.append(where)
        where = where.tb_next
    for each in reversed(frames):
        where = types.TracebackType(where, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return where


class Interpreter:
    def __init__(self, link):
        import builtins
        import signal
        import types
        self.link = link
        self.running = False
        self.cells = 0
        self.flags = 0
        self.out, self.err = make_streams(link)
        sys.stdout = sys.__stdout__ = self.out
        sys.stderr = sys.__stderr__ = self.err
        self.stdin = make_stdin(link, self.flush)
        sys.stdin = sys.__stdin__ = self.stdin
        builtins.input = self.input
        os.read = self.read
        os.register_at_fork(after_in_child=link.lose)
        signal.signal(signal.SIGINT, self.on_interrupt)
        main = types.ModuleType("__main__")
        main.__builtins__ = builtins
        sys.modules["__main__"] = main
        self.names = main.__dict__
        sys.argv = [""]
        if sys.path and sys.path[0] != "":
            sys.path.insert(0, "")
        self.offer_figures()

    def flush(self):
        for stream in (sys.stdout, sys.stderr, self.out, self.err):
            try:
                stream.flush()
            except Exception:
                pass

    def input(self, prompt="", /):
        if sys.stdin is not self.stdin:
            sys.stdout.write(str(prompt))
            sys.stdout.flush()
            line = sys.stdin.readline()
        else:
            self.emit_figures()
            pending = bool(self.stdin.pending)
            if pending and str(prompt):
                sys.stdout.write(str(prompt))
            line = self.stdin.ask(str(prompt))
        if not line:
            raise EOFError("EOF when reading a line (there is input only while a cell runs)")
        return line[:-1] if line.endswith("\n") else line

    def read(self, fd, size, /):
        if fd == 0 and self.link.up is not None:
            return self.stdin.read(size).encode()
        return real_read(fd, size)

    def on_interrupt(self, number, where):
        import signal
        import threading
        if self.running:
            raise KeyboardInterrupt
        # It came while it is blocked here, by a thread of an earlier cell: it waits for the next one.
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    # Figures of matplotlib: a backend of this name draws into memory, and its show() sends. It is made when
    # matplotlib imports it: by then there is something to make it of, and code without figures pays nothing.
    def offer_figures(self):
        def show(*args, **kwargs):
            self.emit_figures()

        class Backend:
            @staticmethod
            def find_spec(name, path=None, target=None):
                if name != "glovebox_figures":
                    return None
                from importlib.machinery import ModuleSpec
                return ModuleSpec(name, Backend)

            @staticmethod
            def create_module(spec):
                return None

            @staticmethod
            def exec_module(module):
                from matplotlib.backends import backend_agg
                module.FigureCanvas = backend_agg.FigureCanvas
                module.FigureManager = backend_agg.FigureManager
                module.show = show

        sys.meta_path.append(Backend)
        os.environ["MPLBACKEND"] = "module://glovebox_figures"

    def emit_figures(self):
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is None:
            return
        import io
        try:
            for number in pyplot.get_fignums():
                figure = pyplot.figure(number)
                image = io.BytesIO()
                figure.savefig(image, format="png")
                pyplot.close(figure)
                self.flush()
                if image.tell() > MOST_IMAGE:
                    sys.stderr.write("figure %d: too large to show\n" % number)
                    continue
                self.link.send(IMAGE, image.getvalue())
                self.link.wait_for_ack()
        except Exception:
            import traceback
            traceback.print_exc()

    def compile(self, source):
        """The parts of a cell, all compiled before any is run."""
        import __future__
        import ast
        import linecache
        self.cells += 1
        name = "<cell %d>" % self.cells
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        flags = self.flags
        tree = compile(source, name, "exec", ast.PyCF_ONLY_AST | flags, True)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        parts = []
        if tree.body:
            parts.append(compile(tree, name, "exec", flags, True))
            for feature in __future__.all_feature_names:
                flag = getattr(__future__, feature).compiler_flag
                if parts[0].co_flags & flag:
                    flags |= flag
        if last is not None:
            parts.append(compile(ast.Interactive([last]), name, "single", flags, True))
        self.flags = flags
        return parts

    def show_error(self, error):
        where = own_frames_left_out(error.__traceback__)
        error = error.with_traceback(where)
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, where
        sys.last_exc = error
        try:
            sys.excepthook(type(error), error, where)
        except BaseException:
            sys.__excepthook__(*sys.exc_info())

    def run_cell(self, source):
        import signal
        try:
            self.running = True
            self.stdin.begin_cell()
            try:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
                for part in self.compile(source):
                    exec(part, self.names)
            except SystemExit:
                raise
            except BaseException as error:
                self.show_error(error)
            self.emit_figures()
            self.flush()
        except KeyboardInterrupt:
            pass  # too late to stop anything
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
            self.running = False
            self.stdin.end_cell()

    def drop_interrupts(self):
        import signal
        while signal.sigtimedwait([signal.SIGINT], 0) is not None:
            pass
        self.link.send(DROP)

    def run(self):
        import signal
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        self.link.send(READY)
        while True:
            kind, payload = self.link.receive()
            if kind == QUIT:
                raise SystemExit
            if kind == DROP:
                self.drop_interrupts()
            if kind != CODE:
                continue
            try:
                self.run_cell(payload.decode("utf-8", "replace").replace("\r\n", "\n"))
            except SystemExit as wish:
                self.running = True  # what runs at the end can be interrupted too
                self.flush()
                self.link.send(BYE)
                signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
                return wish
            self.link.send(READY)


def be_interpreter(down, up, ack, out, err):
    import fcntl
    os.setpgid(0, 0)
    null = os.open("/dev/null", os.O_RDONLY)
    for fd, target in ((null, 0), (out, 1), (err, 2)):
        os.dup2(fd, target)
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100) for fd in (down, up, ack)]
    for fd in (null, out, err, down, up, ack):
        if fd > 2:
            os.close(fd)
    interpreter = Interpreter(Link(*high))
    wish = interpreter.run()
    sys.exit(wish.code)


def main():
    import signal
    down, up, ack, out, err = (os.pipe() for _ in range(5))
    child = os.fork()
    if child == 0:
        for fd in (down[1], up[0], ack[1], out[0], err[0]):
            os.close(fd)
        return be_interpreter(down[0], up[1], ack[0], out[1], err[1])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    for fd in (down[0], up[1], ack[0], out[1], err[1]):
        os.close(fd)
    Pump(child, down[1], up[0], ack[1], out[0], err[0]).run()


main()
