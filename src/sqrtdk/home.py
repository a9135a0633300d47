"""Find a writable cache folder and a user name on machines that provide neither.

A container that runs as an unknown user id has no name for it, and often no writable home. pip,
uv, matplotlib and Snakemake need both. Standard library only: `run.py` calls this before anything
is installed.
"""

import getpass
import os
import tempfile

CACHES = {
    "XDG_CACHE_HOME": "~/.cache",
    "MPLCONFIGDIR": "~/.config/matplotlib",
    "PIP_CACHE_DIR": "~/.cache/pip",
    "UV_CACHE_DIR": "~/.cache/uv",
}
"""Variables that name a cache, and the folder that is used if one is not set."""

NAMES = ("LOGNAME", "USER", "LNAME", "USERNAME")
"""Variables that Python takes the user's name from."""


def variables(folder: str) -> dict[str, str]:
    """Return the environment variables to set so that caches and the user's name exist.

    A cache that is not writable goes into `folder`, or into a new temporary folder if `folder`
    is not writable either. Variables that already work are left out; usually all of them do.
    """
    found = {}
    if not any(os.environ.get(name) for name in NAMES):
        try:
            getpass.getuser()
        # KeyError up to Python 3.12, OSError from 3.13.
        except (KeyError, OSError):
            found["USER"] = f"uid{os.getuid()}"
    homeless = not os.path.isabs(os.path.expanduser("~"))
    missing = [name for name, usual in CACHES.items() if not _writable(_cache(name, usual))]
    if missing or homeless:
        place = folder if _writable(folder) else tempfile.mkdtemp(prefix="sqrtdk-")
        found |= {name: os.path.join(place, name.lower()) for name in missing}
        if homeless:
            os.makedirs(place, exist_ok=True)
            found["HOME"] = place
    return found


def _cache(name: str, usual: str) -> str:
    """Return the folder that a cache's variable names, or the usual one."""
    base = os.environ.get("XDG_CACHE_HOME")
    if base and usual.startswith("~/.cache/"):
        usual = os.path.join(base, usual.removeprefix("~/.cache/"))
    return os.environ.get(name) or os.path.expanduser(usual)


def _writable(folder: str) -> bool:
    """Return whether files can be created in a folder, or in the folder that would contain it."""
    while not os.path.lexists(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    try:
        with tempfile.TemporaryFile(dir=folder):
            return os.path.isabs(folder)
    except OSError:
        return False
