"""Rows of numbers and windows of signals from files, with labels and domains.

==========================  =================================================================
``.npz``                    ``x``, ``[items, features]`` or ``[items, channels, length]``;
                            optionally ``labels``, ``domains``, ``is_train`` and ``ids``
``.npy``                    ``x`` alone
CSV, TSV, Parquet           a row per item; all numeric columns are features, except the
                            columns of labels, domains and ids
``.h5ad``                   ``X``, and columns of ``obs``; needs the package ``anndata``
==========================  =================================================================
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import torch

from bayescl_lab._arrays import UNKNOWN_WORDS, about_unknown, array_names, read_array
from bayescl_lab._fields import listed
from bayescl_lab._files import unreadable
from bayescl_lab._tables import check_widths, class_names, each, find_columns, open_table
from bayescl_lab._types import AnyArray
from bayescl_lab.items.parts import Parts, left_out, mask_of_test, parts_of, train_and_test
from bayescl_lab.items.store import ItemStore, labeled_store

Array = AnyArray
Find = Callable[[Sequence[str]], dict[str, str]]
"""Function of the names in a file that returns the names of labels, domains and ids."""

Read = tuple[dict[str, Array], list[str]]
"""Arrays by kind, and remarks."""

_NAMES = {
    "label": each("labels label class classname category target y celltype"),
    "domain": each(
        "domains domain batch plate donor chemistry device scanner speaker session subject patient "
        "site source user day"
    ),
    "id": each("ids id index identifier barcode unnamed0 rowid sampleid"),
}
"""Names of columns and arrays, without punctuation and in lower case, the most likely first."""


def load_arrays(
    data: str,
    *,
    label_column: str | None = None,
    domain_column: str | None = None,
    unknown: Sequence[str] = UNKNOWN_WORDS,
    standardize: str = "train",
    leave_out: int | None = None,
    fold: int = 0,
    evaluate_on: str = "test",
    classes: str | None = None,
    labels_per_class: int | None = None,
    split: bool = True,
) -> Parts:
    """Load rows or signals as training and evaluation items. The result is deterministic.

    Args:
        data: Path of the file; see above.
        label_column: Column or array of labels. Default: found by its name.
        domain_column: Column or array of domains. Default: found by its name.
        unknown: Strings that mean an unknown label or domain.
        standardize: "domain" to standardize each feature within each domain first. "train" changes
            nothing here.
        leave_out: Number of domains left out of training, which form the evaluation split.
            Default: none; without ``is_train``, 30 % of the labeled items of each class form it.
        fold: Number that determines which domains are left out.
        evaluate_on: Split to evaluate on, "test" or "validation".
        classes: Comma-separated names of classes. Default: all classes.
        labels_per_class: Smallest number of labeled items of each class that stay in the training
            split when a part is split off. Default: 0.
        split: Whether to split items. If False, all are training items.

    Raises:
        ValueError: if the file cannot be read, values are missing or infinite, or the items do not
            match the arguments.
    """
    path, keep = Path(data), labels_per_class or 0
    if not path.is_file():
        raise ValueError(f"there is no file {data}: pass .npz, .npy, .h5ad, CSV, TSV or Parquet")
    read = {".npz": _read_npz, ".npy": _read_npy, ".h5ad": _read_h5ad}.get(
        path.suffix.lower(), _read_table
    )
    given = {"label": label_column, "domain": domain_column}
    arrays, remarks = read(path, lambda names: find_columns(path, names, _NAMES, given))
    store, words = _store(path.name, arrays, unknown)
    remarks = [f"{data}: {line}" for line in (*remarks, *words)]
    if standardize == "domain":
        store = _standardized_by_domain(store)
    if not split:
        return Parts(store, None, tuple(remarks))
    is_test = mask_of_test(store, arrays.get("is_train"))
    if leave_out is not None:
        if is_test.any():
            raise ValueError(
                f"{data}: leave_out cannot be combined with the array is_train of the file"
            )
        is_test = left_out(store, leave_out, fold)
        if evaluate_on == "validation":  # other domains, none of them in the test split
            store = store.subset(~is_test)
            is_test = left_out(store, leave_out, fold)
            evaluate_on = "test"
    stores, about = train_and_test(data, store, is_test, keep, remarks)
    return parts_of(
        data,
        stores,
        about,
        evaluate_on=evaluate_on,
        classes=classes,
        labels_per_class=keep,
    )


def _store(
    name: str, arrays: Mapping[str, Array], unknown: Sequence[str]
) -> tuple[ItemStore, list[str]]:
    """Check values and create a store; return it with remarks."""
    x = arrays["x"]
    if x.dtype.kind not in "fiub":
        raise ValueError(f"{name}: x must contain real numbers, got {x.dtype}")
    if x.ndim not in (2, 3) or 0 in x.shape:
        raise ValueError(
            f"{name}: x must have shape [items, features] or [items, channels, length], "
            f"got {list(x.shape)}"
        )
    if len(x) < 4:
        raise ValueError(f"{name}: there must be at least 4 items, got {len(x)}")
    with np.errstate(over="ignore"):
        values = np.ascontiguousarray(x, dtype=np.float32)
    bad = ~np.isfinite(values.reshape(len(values), -1)).all(axis=1)
    if bad.any():
        raise ValueError(
            f"{name}: x must be finite, got missing, infinite or too large values in "
            f"{int(bad.sum())} of {len(x)} items (first: item {int(bad.argmax())}). Replace these "
            "values or remove the items"
        )
    flat = values if values.ndim == 2 else values.transpose(0, 2, 1).reshape(-1, values.shape[1])
    constant = int((flat == flat[0]).all(axis=0).sum())
    if constant == flat.shape[1]:
        raise ValueError(f"{name}: all features are constant")
    given = {kind: arrays.get(kind) for kind in ("label", "domain")}
    ids = arrays.get("id")
    if ids is not None and ids.shape != (len(x),):
        raise ValueError(f"{name}: ids must have one value per item, got shape {list(ids.shape)}")
    ids = None if ids is None else ids.astype(str)
    if ids is not None and len(np.unique(ids)) < len(ids):
        raise ValueError(
            f"{name}: ids must differ, got {len(np.unique(ids))} distinct of {len(ids)}"
        )
    store = labeled_store(
        torch.from_numpy(values),
        *given.values(),
        name=name,
        ids=ids,
        unknown=unknown,
        noun="items",
    )
    remarks = about_unknown([it for it in given.values() if it is not None], unknown)
    if constant:
        remarks.append(f"{constant} of {flat.shape[1]} features are constant and have no effect")
    return store, remarks


def _read_npz(path: Path, find: Find) -> Read:
    """Read named arrays."""
    names = array_names(path)
    if "x" not in names:
        raise ValueError(f"{path} has no array x, got {', '.join(names) or 'none'}")
    found = find([name for name in names if name not in ("x", "is_train")])
    wanted = {**found, **({"is_train": "is_train"} if "is_train" in names else {})}
    arrays = {kind: read_array(path, name, dimensions=(1,)) for kind, name in wanted.items()}
    return {"x": read_array(path, "x", dimensions=(2, 3)), **arrays}, _about_columns(found)


def _read_npy(path: Path, find: Find) -> Read:
    """Read one array."""
    find([])  # raises if a column is named
    return {"x": read_array(path, dimensions=(2, 3))}, []


def _read_h5ad(path: Path, find: Find) -> Read:
    """Read the matrix and the observations of annotated data."""
    try:
        import anndata
    except ImportError:
        raise ValueError(f"{path}: pip install anndata to read .h5ad files") from None
    try:
        cells = anndata.read_h5ad(path)
        x = cells.X.toarray() if hasattr(cells.X, "toarray") else np.asarray(cells.X)
        found = find([str(name) for name in cells.obs.columns])
        columns = {kind: cells.obs[name] for kind, name in found.items()}
        ids = cells.obs_names.to_numpy().astype(str)
    except (OSError, KeyError, TypeError, AttributeError) as error:
        raise unreadable(path, error) from None
    texts = {kind: _text(pl.Series(it.astype(object).tolist())) for kind, it in columns.items()}
    return {"x": x, **texts, "id": ids}, _about_columns(found)


def _read_table(path: Path, find: Find) -> Read:
    """Read a table. Text columns are left out, and a remark names them."""
    table = open_table(path)
    repeated = [name for name, count in Counter(table.header).items() if count > 1]
    if repeated:
        raise ValueError(f"{path}: several columns are called {repeated[0]!r}")
    found = find(table.header)
    others = {str(at): it for at, it in enumerate(table.header) if it not in found.values()}
    if not others:
        raise ValueError(f"{path} has no numeric column besides labels, domains and ids")
    numbers = table.read(others, numeric=True)
    check_widths(table, numbers)
    columns = (it for it in numbers.iter_columns() if it.name in others)
    doubtful = [it.name for it in columns if it.has_nulls() or not _is_numeric(it)]
    wanted = {**found, **{at: others[at] for at in doubtful}}
    text = table.read(wanted) if wanted else numbers
    numbers = numbers.filter(pl.col("line").is_in(text["line"].implode()))
    left_out: list[str] = []
    gaps: dict[str, int] = {}
    for at in doubtful:
        column, raw = numbers[at], text[at]
        if raw.dtype == pl.String:
            column = raw.str.strip_chars().cast(pl.Float64, strict=False)
            known = ~raw.fill_null("").str.strip_chars().is_in(UNKNOWN_WORDS)
            lost = (column.is_null() & known).arg_true()
            if 0 < len(lost) <= len(raw) / 2:
                line = f"{path}, {table.unit} {text['line'][lost[0]]}"
                value = f"{raw[lost[0]]!r} in column {others[at]!r}"
                raise ValueError(f"{line}: {value} is not a number")
        if _is_numeric(column) and (raw.dtype != pl.String or not len(lost)):
            numbers = numbers.with_columns(column.alias(at))
            gaps |= {others[at]: column.null_count()} if column.null_count() else {}
        else:
            left_out.append(others.pop(at))
    if not others:
        raise ValueError(f"{path} has no numeric column besides labels, domains and ids")
    if gaps:
        raise ValueError(
            f"{path}: {sum(gaps.values())} values are missing, in the columns "
            f"{listed([*gaps])}: fill them in or remove the rows or columns"
        )
    remarks = _about_columns(found)
    remarks.append(f"{len(others)} features: {listed([*others.values()])}")
    if left_out:
        remarks.append(f"text columns are left out: {listed(left_out)}")
    texts = {kind: _text(text[kind]) for kind in found}
    return {"x": numbers.select(pl.col([*others]).cast(pl.Float64)).to_numpy(), **texts}, remarks


def _is_numeric(column: pl.Series) -> bool:
    """Return whether a column can be a feature."""
    return column.dtype.is_numeric() or column.dtype == pl.Boolean


def _text(column: pl.Series) -> Array:
    """Return labels, domains or ids as text."""
    return np.array(class_names(column, UNKNOWN_WORDS).to_list(), dtype=str)


def _about_columns(found: Mapping[str, str]) -> list[str]:
    """Say which columns are labels and domains, and how domains are used."""
    lines = ", ".join(f"{kind}s from {name!r}" for kind, name in found.items())
    remarks = [lines] if lines else []
    if "domain" in found:
        remarks.append(
            f"pass --domains if {found['domain']!r} is a nuisance such as a batch or a device: "
            "candidates then come from the item's own domain"
        )
    return remarks


def _standardized_by_domain(store: ItemStore) -> ItemStore:
    """Standardize each feature or channel within each domain."""
    domains = store.domains
    if domains is None or bool((domains < 0).any()):
        raise ValueError(f"{store.name}: --standardize domain needs a known domain for every item")
    values, axes = store.tensor.double(), (0,) if store.tensor.ndim == 2 else (0, 2)
    for domain in domains.unique():
        rows = domains == domain
        deviation, mean = torch.std_mean(values[rows], dim=axes, correction=0, keepdim=True)
        deviation[deviation <= 1e-6 * mean.abs()] = torch.inf  # constant in this domain
        values[rows] = (values[rows] - mean) / deviation
    return replace(store, tensor=values.nan_to_num(0.0).float())
