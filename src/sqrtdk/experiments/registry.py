"""Every experiment by its name, which is also its file in conf/experiment/."""

from types import ModuleType

from sqrtdk.experiments import scaling

EXPERIMENTS: dict[str, ModuleType] = {"scaling": scaling}
