"""Compose a configuration with Hydra and resolve it."""

from collections.abc import Iterable, Mapping
from typing import Any

from sqrtdk.config.errors import ConfigError, invalid_value
from sqrtdk.config.limits import check_limits
from sqrtdk.config.overrides import CONF, blocks_of, check_overrides, grids, overlay
from sqrtdk.config.resolve import resolve
from sqrtdk.config.run import Run
from sqrtdk.system import errors


def compose(
    overrides: list[str],
    values: Mapping[str, Any],
    config_name: str = "config",
    typed: Iterable[str] = (),
) -> Run:
    """Compose the files of conf/ with Hydra overrides, apply plain values on top, and resolve.

    `typed` are the keys whose values were given on the command line. Raises ConfigError.
    """
    run = composed(overrides, values, config_name, typed)
    check_limits(run)
    return run


def composed(
    overrides: list[str],
    values: Mapping[str, Any],
    config_name: str = "config",
    typed: Iterable[str] = (),
) -> Run:
    """Compose a run as `compose` does, without asking whether this machine can compute it."""
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    values = dict(values)
    if "grid" in values:
        grid = values.pop("grid")
        if grid not in grids():
            raise invalid_value("grid", grid, " or ".join(grids()), grids())
        overrides = [*overrides, f"grid={grid}"]
    arguments = check_overrides(overrides, taken=values)
    try:
        with initialize_config_dir(str(CONF), version_base="1.3"):
            found: Any = OmegaConf.to_container(hydra_compose(config_name, arguments), resolve=True)
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(errors.one_line(error)) from None
    return resolve(overlay(found, values), blocks_of(overrides) | set(typed))
