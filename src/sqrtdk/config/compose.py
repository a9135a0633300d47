"""Compose a configuration with Hydra and resolve it."""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from functools import lru_cache
from typing import Any

from sqrtdk.config.errors import ConfigError, FormError, invalid_value
from sqrtdk.config.limits import check_limits
from sqrtdk.config.overrides import CONF, blocks_of, check_overrides, grids, overlay
from sqrtdk.config.resolve import resolve
from sqrtdk.config.run import Run
from sqrtdk.schema import Document
from sqrtdk.system import errors


def compose(
    overrides: list[str],
    values: Document,
    config_name: str = "config",
    typed: Iterable[str] = (),
    extra: Sequence[str] = (),
    *,
    here: bool = True,
) -> Run:
    """Compose the files of conf/ with Hydra overrides, apply plain values on top, and resolve.

    `typed` are the keys whose values were given on the command line, `extra` further keys of the
    command. The memory of this machine counts only if cells are measured `here`. Raises
    ConfigError.
    """
    run = composed(overrides, values, config_name, typed, extra)
    check_limits(run, here=here)
    return run


def composed(
    overrides: list[str],
    values: Document,
    config_name: str = "config",
    typed: Iterable[str] = (),
    extra: Sequence[str] = (),
) -> Run:
    """Compose a run as `compose` does, without asking whether this machine can compute it."""
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    values = dict(values)
    if "grid" in values:
        grid = values.pop("grid")
        if grid not in grids():
            raise invalid_value("grid", grid, " or ".join(grids()), grids())
        overrides = [*overrides, f"grid={grid}"]
    arguments = check(overrides, values, config_name, extra=extra)
    try:
        found = dict(deepcopy(_files_with(config_name, tuple(arguments))))
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(errors.one_line(error)) from None
    for key in extra:
        found.pop(key, None)
    return resolve(overlay(found, values), blocks_of(overrides) | set(typed))


@lru_cache(maxsize=32)
def _files_with(config_name: str, overrides: tuple[str, ...]) -> Document:
    """Return the files of conf/ with Hydra overrides, as plain values.

    Hydra takes a tenth of a second for it, and an answer to a mistake tries several requests.
    """
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from omegaconf import OmegaConf

    with initialize_config_dir(str(CONF), version_base="1.3"):
        found: Any = OmegaConf.to_container(hydra_compose(config_name, [*overrides]), resolve=True)
    return {str(name): value for name, value in found.items()}


def check(
    overrides: list[str],
    values: Document,
    config_name: str,
    *,
    extra: Sequence[str] = (),
    sweep: bool = False,
) -> list[str]:
    """Reject overrides like `check_overrides`; the form that an error names is tried first.

    Raises ConfigError: of the form if that would be refused as well, because what is wrong with
    the value matters more than the form.
    """
    try:
        return check_overrides(overrides, taken=values, extra=extra, sweep=sweep)
    except FormError as error:
        if error.instead is None:
            raise
        chosen = [f"experiments={error.experiment}"]
        try:
            compose(error.instead, values, config_name, extra=extra)
        except ConfigError as other:
            known = {line.partition("=")[0] for line in error.instead} | set(values)
            if "experiments" in known:
                raise
            # By hand, a run builds one experiment.
            compose([*error.instead, *chosen], values, config_name, extra=extra)
            raise ConfigError(f"{error} {chosen[0]}") from other
        raise
