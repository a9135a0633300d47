"""What `python` is for a job of a run in a fork (see `warm`): it asks the server for one more.

    python -IS job.py SOCKET -m MODULE ARGUMENTS

It has next to no imports, so it starts in a small part of the time of a job's.
"""

import binascii
import json
import os
import socket
import sys
from collections.abc import Sequence


def loaded(place: str, paths: str) -> str:
    """Return the socket, beside one, of the forks that have loaded the code of a PYTHONPATH."""
    # Short, because the name of a socket may not be long.
    return f"{place}-{binascii.crc32(paths.split(os.pathsep)[0].encode()):08x}"


def ask(
    place: str, words: Sequence[str], folder: str, environment: dict[str, str],
    streams: Sequence[int], limit: float | None = None,
) -> int:  # fmt: skip
    """Have the server at a socket run a module; return the exit code.

    Raises TimeoutError after `limit` seconds.
    """
    with_code = loaded(place, environment.get("PYTHONPATH", ""))
    place = with_code if os.path.exists(with_code) else place
    request = {"words": words, "folder": folder, "environment": environment}
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.settimeout(limit)
        line.connect(place)
        socket.send_fds(line, [b"."], streams)
        line.sendall(json.dumps(request).encode() + b"\n")
        # A fork that was killed says nothing.
        return int(line.recv(16) or 137)


if __name__ == "__main__":
    _, place, _, *words = sys.argv
    sys.exit(ask(place, words, os.getcwd(), dict(os.environ), (0, 1, 2)))
