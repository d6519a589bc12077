"""Comparisons of methods over seeds on the same data, with all other settings equal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bayescl_lab._fields import Count, check_choice, checked
from bayescl_lab.compare.plan import TUNING_SEED, with_values
from bayescl_lab.compare.tuning import Values, check_once, stages
from bayescl_lab.runs.losses import (
    BASELINE,
    LOSSES,
    SHARE,
    SHARES,
    TEACHER,
    LossSettings,
    Room,
    methods_of,
    takes,
)

if TYPE_CHECKING:
    from bayescl_lab.runs.images.image_settings import ImageSettings
    from bayescl_lab.runs.ranking.ranking_settings import RankingSettings


def compared(
    methods: Mapping[str, Values],
    shared: ImageSettings | RankingSettings,
    *,
    seeds: int,
    tune: int = 0,
) -> dict[str, Any]:
    """Return the arguments of a plan that compares methods.

    Runs with the same seed have the same initial weights, batches, views and candidates, so losses
    can be compared seed by seed.

    Args:
        methods: Hyper-parameters and other settings of each method, by its name. The name is the
            name of a loss, with the suffix :data:`.TEACHER` for a teacher.
        shared: Settings of all runs. Its loss is replaced, and its seed is the first one.
        seeds: Number of seeds.
        tune: Number of settings tried for each method before; see :func:`.stages`. 0 for none.

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
        raise ValueError("tune chooses on the validation part: evaluate_on must be test")
    of_methods, first_values = {}, {}
    for name, values in methods.items():
        loss = name.removesuffix(TEACHER)
        plain: Any = {"loss": replace(shared.loss, loss=loss, hyperparameters={})}
        of_methods[name] = with_values(replace(shared, **plain), values)
        config, every = of_methods[name].as_config(), {**LOSSES[loss].hyperparameters, **values}
        first_values[name] = {key: config[key] for key in every if key in config}
    return {
        "methods": of_methods,
        "seeds": range(shared.seed, shared.seed + seeds),
        "stages": stages(first_values, tune) if tune else (),
        "tuning_seeds": (shared.seed + TUNING_SEED,),
    }


def settle_methods(
    names: Sequence[str],
    room: Room,
    *,
    given: Mapping[str, float | None] | None = None,
    recorded: Callable[[str], Mapping[str, float]] = lambda _: {},
) -> dict[str, dict[str, float]]:
    """Choose the values of every method of a comparison.

    Values in ``given`` that are not ``None`` apply to all methods that have them. ``recorded``
    returns the values of a method for the data. The default temperature is the temperature of
    InfoNCE. For images, ``positive_share`` is 1 without a teacher.

    Raises:
        ValueError: if a name is unknown or occurs twice, or no method takes a given value.

    Example:
        >>> settle_methods(["bpr", "hard"], "ranking", given={"tau_plus": 0.1})
        {'bpr': {}, 'hard': {'tau_plus': 0.1}}
    """
    given = {name: value for name, value in (given or {}).items() if value is not None}
    check_once("losses", names, "every loss")
    for name in names:
        check_choice("loss", name, methods_of(room))
    for name in given:
        if not any(takes(method, name) for method in names):
            raise ValueError(f"none of the losses {', '.join(names)} takes {name}")
    # The default temperature of recommenders is equal for all losses.
    default = LossSettings(BASELINE).resolved() if room == "images" else {}
    common = {**default, **recorded(BASELINE)}
    temperature = {name: value for name, value in common.items() if name == "temperature"}
    methods = {}
    for method in names:
        own = {name: value for name, value in given.items() if takes(method, name)}
        methods[method] = {**temperature, **recorded(method), **own}
        if room == "images":
            share = methods[method].get(SHARE, SHARES[0]) if method.endswith(TEACHER) else 1.0
            methods[method][SHARE] = share
    return methods
