"""After the work, the rank replaces itself with another program, small from the start, that returns the result."""

import os as _os
import time as _time

from shardlab.ranks import inside as _inside

_PROGRAM = """
import os, sys, time
with open(sys.argv[2], "rb") as file:
    view = memoryview(file.read())
while view:
    view = view[os.write(int(sys.argv[1]), view):]
os.close(int(sys.argv[1]))
time.sleep(60)
"""


def _handed_in_by_another(pipe, parts):
    data = b"".join(parts)
    path = _os.path.join(_os.environ.get("TMPDIR", "/tmp"), f"handed-in-{_os.getpid()}")
    with open(path, "wb") as file:
        file.write(_inside.LENGTH.pack(len(data)) + data)
    _os.set_inheritable(pipe, True)
    _time.sleep(0.3)  # our connections close when we end, and others may still be reading
    _os.execv(_sys.executable, [_sys.executable, "-S", "-c", _PROGRAM, str(pipe), path])


_inside.send = _handed_in_by_another
