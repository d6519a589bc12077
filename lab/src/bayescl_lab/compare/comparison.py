"""Comparisons of methods over seeds on the same data, with all other settings equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bayescl_lab._fields import Count, check_choice, checked
from bayescl_lab._types import Config, Values
from bayescl_lab.compare.plan import TUNING_SEED
from bayescl_lab.compare.tuning import check_once, stages
from bayescl_lab.runs.losses import LOSSES, SHARE, TEACHER, has_hyperparameter, loss_of

if TYPE_CHECKING:
    from bayescl_lab.runs.settings import TrainedSettings


def compared(
    methods: Mapping[str, Values], shared: TrainedSettings, *, seeds: int, tune: int = 0
) -> Config:
    """Return the arguments of a plan that compares methods.

    Runs with the same seed have the same initial weights, batches, views and candidates, so losses
    can be compared seed by seed.

    Args:
        methods: Hyper-parameters and other settings of each method, by its name. The name is the
            name of a loss, with suffixes for domains and a teacher.
        shared: Settings of all runs. The loss is replaced, and the seed is the first seed.
        seeds: Number of seeds.
        tune: Number of settings tried before the comparison, for each method; see :func:`.stages`.

    Raises:
        ValueError: if the settings cannot be compared.
    """
    checked("seeds", seeds, Count)
    if shared.num_processes > 1:
        raise ValueError(
            "devices must be 1 in a comparison, which trains runs side by side, "
            f"got {shared.num_processes}"
        )
    if tune and shared.evaluate_on != "test":
        raise ValueError("tune chooses settings on the validation split: evaluate_on must be test")
    of_methods, first_values = {}, {}
    for name, values in methods.items():
        of_methods[name] = shared.with_method(name).with_values(values)
        config = of_methods[name].as_config()
        every = {**LOSSES[loss_of(name)].hyperparameters, **values}
        if name.endswith(TEACHER):
            every[SHARE] = None
        first_values[name] = {key: config[key] for key in every if key in config}
    return {
        "methods": of_methods,
        "seeds": range(shared.seed, shared.seed + seeds),
        "stages": stages(first_values, tune) if tune else (),
        "tuning_seeds": (shared.seed + TUNING_SEED,),
    }


def values_of_methods(
    names: Sequence[str],
    choices: Sequence[str],
    *,
    given: Mapping[str, float | None],
    own: Mapping[str, Mapping[str, float]],
) -> dict[str, dict[str, float]]:
    """Return the hyper-parameters of every method of a comparison that are not defaults.

    Args:
        names: Names of methods.
        choices: Names of all methods.
        given: Values for all methods that have them. ``None`` values are ignored.
        own: Values of single methods, which ``given`` replaces.

    Raises:
        ValueError: if a name is unknown or occurs twice, or no method has a given hyper-parameter.

    Example:
        >>> values_of_methods(["bpr", "hard"], ["bpr", "hard"], given={"tau_plus": 0.1}, own={})
        {'bpr': {}, 'hard': {'tau_plus': 0.1}}
    """
    check_once("losses", names)
    for name in names:
        check_choice("loss", name, choices)
    shared = {name: value for name, value in given.items() if value is not None}
    for name in shared:
        if not any(has_hyperparameter(method, name) for method in names):
            raise ValueError(f"none of the losses {', '.join(names)} takes {name}")
    return {
        method: {
            **own.get(method, {}),
            **{name: value for name, value in shared.items() if has_hyperparameter(method, name)},
        }
        for method in names
    }
