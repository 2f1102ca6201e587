"""The command, held ready: `python -m quantviz.standby [RECIPE]…` imports the modules of a scan, compiles
the recipes' kernels, and runs the arguments that it then reads from stdin, a JSON list in one line.

The page of checkpoints starts it when it is opened, so that a scan begins at the click and not three seconds
later. It ends when stdin does, or when nothing has come for a long time.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback

from quantviz import own_process

#: Seconds to wait for arguments.
_PATIENCE = 900.0
#: Seconds after which one thread lets another have the interpreter.
_SWITCH = 0.001


def wait() -> None:
    """Import and compile ahead, then run the arguments from stdin."""
    own_process.lower_priority()
    came = threading.Event()
    lines: list[str] = []

    def read() -> None:
        lines.append(sys.stdin.readline())
        came.set()

    threading.Thread(target=read, daemon=True).start()
    import quantviz.cli.scan  # noqa: F401
    from quantviz.checkpoints.scan.scanning import make_ready

    # A scan that is requested meanwhile begins at once, beside the rest of the compilation.
    threading.Thread(target=make_ready, args=(sys.argv[1:], came.is_set), daemon=True).start()
    sys.setswitchinterval(_SWITCH)
    if not came.wait(_PATIENCE) or not lines[0].strip():
        # A thread that reads stdin would keep Python from ending.
        os._exit(0)
    sys.argv = ["quantviz", *json.loads(lines[0])]
    from quantviz.cli import main

    code: object = 1
    try:
        main()
        code = 0
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        traceback.print_exc()
    sys.stderr.flush()
    # Not by way of Python's end, in which a thread that compiles could not go on.
    os._exit(code if isinstance(code, int) else int(code is not None))


if __name__ == "__main__":
    wait()
