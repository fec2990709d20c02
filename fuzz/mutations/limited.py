"""Runs one command under limits, and writes its exit status and its peak memory in KiB to the descriptor in HIGHWATER_MUTATIONS_RESULT.

    python3 -I -S limited.py COMMAND …

A process of its own, and a small one: the system counts the memory of whoever starts a command as the command's.
"""

import os
import resource
import signal
import sys

ADDRESS_SPACE = 12 << 30
FILE = 2 << 30

child = os.fork()
if child == 0:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE, FILE))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    result = int(os.environ.pop("HIGHWATER_MUTATIONS_RESULT"))
    os.close(result)
    try:
        os.execv(sys.argv[1], sys.argv[1:])
    except OSError as error:
        print(f"{sys.argv[1]}: {error.strerror}", file=sys.stderr, flush=True)
        os._exit(127)
_, status, usage = os.wait4(child, 0)
os.write(int(os.environ["HIGHWATER_MUTATIONS_RESULT"]), f"{os.waitstatus_to_exitcode(status)} {usage.ru_maxrss}".encode())
