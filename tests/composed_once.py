"""Have Hydra read the files of a choice of files once, however many requests there are.

Reading and merging the files of `conf/` takes Hydra a tenth of a second, and the tests make a
thousand requests with the same files. Hydra still parses, checks and applies the values on top.
`tests/config/test_resolve.py` compares the results with those of Hydra alone.
"""

import hashlib
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from functools import cache
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra._internal import config_loader_impl as hydra
from hydra._internal.defaults_list import Overrides

Loader: Any = hydra.ConfigLoaderImpl
read, merge = hydra.create_defaults_list, Loader._compose_config_from_defaults_list
add_folders = Loader._process_config_searchpath

USUAL = (("config", ()), ("config", ("grid=smoke",)), ("cell", ()))
"""The names and overrides of the usual requests."""

lists: dict[Any, Any] = {}
files: dict[Any, bytes] = {}
alone: set[Any] = set()
"""The files that add no folders to those that Hydra reads."""


def _sources(repo: Any) -> tuple[str, ...]:
    return tuple(_content(one.path) or repr(one) for one in repo.get_sources())


@cache
def _content(place: str) -> str:
    """Return a digest of a folder's files: a copy of the project has the same as the original."""
    scheme, _, folder = place.partition("://")
    if scheme != "file":
        return ""
    found = hashlib.sha256()
    for path in sorted(Path(folder).rglob("*.yaml")):
        content = path.read_bytes()
        found.update(f"{path.relative_to(folder)} {len(content)}\n".encode() + content)
    return found.hexdigest()


def read_ahead(folder: Path) -> None:
    """Read the files of the usual requests: forks of this process then have them."""
    with initialize_config_dir(str(folder), version_base="1.3"):
        for name, overrides in USUAL:
            compose(name, [*overrides])


def _read_once(
    repo: Any, config_name: Any, overrides_list: Any, prepend_hydra: bool, skip_missing: bool
) -> Any:
    values = Overrides(repo=repo, overrides_list=overrides_list).config_overrides
    chosen = tuple(one.input_line for one in overrides_list if one not in values)
    key = (_sources(repo), config_name, chosen, prepend_hydra, skip_missing)
    if key not in lists:
        lists[key] = read(repo, config_name, overrides_list, prepend_hydra, skip_missing)
    found = copy(lists[key])
    found.config_overrides = values
    return found


def _merge_once(self: Any, defaults: Any, repo: Any) -> Any:
    key = (_sources(repo), tuple((repr(one), one.override_key) for one in defaults))
    if key not in files:
        files[key] = pickle.dumps(merge(self, defaults, repo))
    # In a third of the time of a copy.
    return pickle.loads(files[key])


def _add_folders_once(self: Any, config_name: Any, overrides: Any, repo: Any) -> None:
    key = (before := _sources(repo), config_name)
    if key in alone and not any(one.get_key_element() == "hydra.searchpath" for one in overrides):
        return
    add_folders(self, config_name, overrides, repo)
    if _sources(repo) == before:
        alone.add(key)


def install() -> None:
    """Keep the parts of a composition that depend on the names of files alone."""
    hydra.create_defaults_list = _read_once
    Loader._compose_config_from_defaults_list = _merge_once
    Loader._process_config_searchpath = _add_folders_once


@contextmanager
def hydra_alone() -> Iterator[None]:
    """Keep nothing meanwhile."""
    hydra.create_defaults_list = read
    Loader._compose_config_from_defaults_list = merge
    Loader._process_config_searchpath = add_folders
    try:
        yield
    finally:
        install()
