"""Two classes: the paper's table "Top-1 accuracy for binary image classification"."""

from __future__ import annotations

from bayescl.experiments.images.paper.sizes import TITLES, cell_settings, datasets_of
from bayescl.experiments.images.paper.table import Cell, PaperTable, figures_of
from bayescl.runs.losses import LOSSES as ALL_LOSSES

BATCH_SIZES = {"smoke": 64, "paper": 256}
"""Two of the digits come to 250 training images."""

LOSSES = ("info_nce", "debiased", "hard", "bayesian")

_PRINTED = figures_of(
    """
    cifar10       info_nce 99.1
    cifar10       debiased 98.1
    cifar10       hard     98.4
    cifar10       bayesian 99.3 ± 0.22
    stl10         info_nce 91.7
    stl10         debiased 91.2
    stl10         hard     91.1
    stl10         bayesian 92.7 ± 0.34
    cifar100      info_nce 97.5
    cifar100      debiased 86.9
    cifar100      hard     96.5
    cifar100      bayesian 98.8 ± 0.28
    tiny-imagenet info_nce 97.0
    tiny-imagenet debiased 96.0
    tiny-imagenet hard     94.0
    tiny-imagenet bayesian 99.0 ± 0.26
    """
)


def _cells(size: str) -> list[Cell]:
    """Every loss on two classes of every data set, ``tau_plus`` = 0.5."""
    return [
        Cell(
            keys={
                "data set": TITLES[data],
                "loss": ALL_LOSSES[loss].title,
                "N": str(2 * BATCH_SIZES[size] - 2),
            },
            settings=cell_settings(
                size, data, loss, batch_size=BATCH_SIZES[size], two_classes=True
            ),
            paper={"linear": _PRINTED[data, loss]} if (data, loss) in _PRINTED else {},
        )
        for data in datasets_of(size)
        for loss in LOSSES
    ]


BINARY = PaperTable(
    name="binary",
    title="Two classes of each data set, tau_plus = 0.5",
    label="Exp:result2",
    measures=("linear", "few_label_1"),
    cells=_cells,
    remarks=(
        "The paper does not say which two classes it drew. Here a fixed seed draws them, the same "
        "for every loss and run.",
    ),
)
"""``bayescl reproduce binary``."""
