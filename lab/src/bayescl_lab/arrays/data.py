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

from bayescl_lab._arrays import UNKNOWN_WORDS, array_names, read_array
from bayescl_lab._tables import open_table, plain_name, plain_values, whole_numbers
from bayescl_lab._types import AnyArray
from bayescl_lab.items.parts import Parts, left_out, mask_of_test, parts_of, train_and_test
from bayescl_lab.items.store import ItemStore, labeled_store

Array = AnyArray

_NAMES = {
    "labels": "labels label class classname category target y celltype",
    "domains": "domains domain batch plate donor chemistry device scanner speaker session subject"
    " patient site source user day",
    "ids": "ids id index identifier barcode unnamed0 rowid sampleid",
}
"""Names of columns and arrays, without punctuation and in lower case, the most likely first."""

_LISTED = 8  # names in a remark


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
    max_train_items: int | None = None,
    labels_per_class: int | None = None,
    split: bool = True,
) -> Parts:
    """Load rows or signals as training and evaluation items. The result is deterministic.

    Args:
        data: Path of the file; see above.
        label_column: Column or array of labels. Default: found by its name.
        domain_column: Column or array of domains. Default: found by its name.
        unknown: Strings that mean an unknown label or domain.
        standardize: "domain" to standardize each feature within each domain, before anything else.
        leave_out: Number of domains that are left out of training and form the evaluation split.
            Default: none, and 30 % of the labeled items of each class form it.
        fold: Number that determines which domains are left out.
        evaluate_on: Split to evaluate on, "test" or "validation".
        classes: Comma-separated names of classes. Default: all classes.
        max_train_items: Approximate number of training items. Default: all.
        labels_per_class: Smallest number of labeled items of each class that stay in the training
            split when a part is split off. Default: 0.
        split: Whether to split items. If False, all are in the first part.

    Raises:
        ValueError: if the file cannot be read, values are missing or infinite, or the items do not
            match the arguments.
    """
    path, keep = Path(data), labels_per_class or 0
    if not path.is_file():
        raise ValueError(f"there is no file {data}: arrays are .npz, .npy, .h5ad, CSV or Parquet")
    suffix = path.suffix.lower()
    named = {"labels": label_column, "domains": domain_column}
    readers = {".npz": _read_npz, ".npy": _read_npy, ".h5ad": _read_h5ad}
    read: Callable[..., tuple[dict[str, Array], list[str]]] = readers.get(suffix, _read_table)
    arrays, remarks = read(path, named)
    store, words = _store(path.name, arrays, unknown)
    remarks = [f"{data}: {line}" for line in (*remarks, *words)]
    if standardize == "domain":
        store = _standardized_by_domain(store)
    if not split:
        return Parts(store, None, tuple(remarks))
    is_test = mask_of_test(store, arrays.get("is_train"))
    if leave_out is not None:
        if is_test.any():
            raise ValueError(f"{data}: leave_out is not for files with an array is_train")
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
        max_train_items=max_train_items,
        labels_per_class=keep,
    )


def _store(
    name: str, arrays: Mapping[str, Array], unknown: Sequence[str]
) -> tuple[ItemStore, list[str]]:
    """Check values and create a store; return it with remarks."""
    x = arrays["x"]
    if x.dtype.kind not in "fiub":
        raise ValueError(f"{name}: x must hold real numbers, got {x.dtype}")
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
            f"{int(bad.sum())} of {len(x)} items, the first of them item {int(bad.argmax())}: fill "
            "them in or remove the items"
        )
    flat = values if values.ndim == 2 else values.transpose(0, 2, 1).reshape(-1, values.shape[1])
    constant = int((flat == flat[0]).all(axis=0).sum())
    if constant == flat.shape[1]:
        raise ValueError(f"{name}: all features are constant")
    given = {one: np.asarray(arrays[one]) for one in ("labels", "domains") if one in arrays}
    words = (it.astype(str) for it in given.values() if it.dtype.kind in "US")
    counts = Counter(word for it in words for word in it[np.isin(it, unknown)].tolist() if word)
    ids = arrays.get("ids")
    if ids is not None and ids.shape != (len(x),):
        raise ValueError(f"{name}: ids must hold one value per item, got shape {list(ids.shape)}")
    ids = None if ids is None else ids.astype(str)
    if ids is not None and len(np.unique(ids)) < len(ids):
        raise ValueError(f"{name}: ids must differ, got {len(np.unique(ids))} of {len(ids)} items")
    store = labeled_store(
        torch.from_numpy(values),
        given.get("labels"),
        given.get("domains"),
        name=name,
        ids=ids,
        unknown=unknown,
        noun="items",
    )
    remarks = [f"{word!r} means unknown ({count})" for word, count in counts.items()]
    if constant:
        remarks.append(f"{constant} of {flat.shape[1]} features are constant and have no effect")
    return store, remarks


def _read_npz(path: Path, named: Mapping[str, str | None]) -> tuple[dict[str, Array], list[str]]:
    """Read named arrays."""
    names = array_names(path)
    if "x" not in names:
        raise ValueError(f"{path} lacks the array x, got {', '.join(names) or 'none'}")
    wanted = {"x": "x", **_chosen(path, names, named)}
    wanted |= {"is_train": "is_train"} if "is_train" in names else {}
    dimensions = {one: (2, 3) if one == "x" else (1,) for one in wanted}
    arrays = {one: read_array(path, wanted[one], dimensions=dimensions[one]) for one in wanted}
    return arrays, _about_columns(wanted)


def _read_npy(path: Path, named: Mapping[str, str | None]) -> tuple[dict[str, Array], list[str]]:
    """Read one array."""
    for kind, name in named.items():
        if name is not None:
            raise ValueError(f"{path} has no {kind}: save them with x in an .npz file")
    return {"x": read_array(path, dimensions=(2, 3))}, []


def _read_h5ad(path: Path, named: Mapping[str, str | None]) -> tuple[dict[str, Array], list[str]]:
    """Read the matrix and the observations of annotated data."""
    try:
        import anndata
    except ImportError:
        raise ValueError(f"{path}: pip install anndata to read .h5ad files") from None
    try:
        cells = anndata.read_h5ad(path)
        x = cells.X.toarray() if hasattr(cells.X, "toarray") else np.asarray(cells.X)
        wanted = _chosen(path, [str(name) for name in cells.obs.columns], named)
        columns = {kind: cells.obs[name] for kind, name in wanted.items()}
        ids = cells.obs_names.to_numpy().astype(str)
    except (OSError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"cannot read {path}: {str(error).partition(chr(10))[0]}") from None
    texts = {kind: _codes(pl.Series(it.astype(object).tolist())) for kind, it in columns.items()}
    return {"x": x, **texts, "ids": ids}, _about_columns(wanted)


def _read_table(path: Path, named: Mapping[str, str | None]) -> tuple[dict[str, Array], list[str]]:
    """Read a table. Text columns are left out, and a remark names them."""
    table = open_table(path)
    repeated = [name for name, count in Counter(table.header).items() if count > 1]
    if repeated:
        raise ValueError(f"{path}: several columns are called {repeated[0]!r}")
    wanted = _chosen(path, table.header, named)
    others = [name for name in table.header if name not in wanted.values()]
    frame = table.read({str(place): name for place, name in enumerate(table.header)})
    if (wide := frame.filter(pl.col("surplus").is_not_null())).height:
        line = f"{path}, {table.unit} {wide['line'][0]}"
        raise ValueError(f"{line}: there are more values than in the first line")
    places = {name: str(place) for place, name in enumerate(table.header)}
    texts = {kind: _codes(frame[places[name]]) for kind, name in wanted.items()}
    numbers = frame.select(
        pl.col(pl.String).str.strip_chars().cast(pl.Float64, strict=False),
        pl.exclude(pl.String),
    )
    features, text_columns = [], []
    for name in others:
        column, raw = numbers[places[name]], frame[places[name]]
        if not (column.dtype.is_numeric() or column.dtype == pl.Boolean):
            text_columns.append(name)
            continue
        if raw.dtype == pl.String and column.null_count() > raw.null_count():
            lost = (
                column.is_null() & raw.is_not_null() & ~raw.str.strip_chars().is_in(UNKNOWN_WORDS)
            )
            if int(lost.sum()) > len(raw) / 2:  # a column of text
                text_columns.append(name)
                continue
            if lost.any():
                row = int(lost.arg_max() or 0)
                line = f"{path}, {table.unit} {frame['line'][row]}"
                raise ValueError(f"{line}: {raw[row]!r} in column {name!r} is not a number")
        features.append(name)
    if not features:
        raise ValueError(f"{path} has no numeric column besides labels, domains and ids")
    chosen = numbers.select(pl.col([places[name] for name in features]).cast(pl.Float64))
    gaps = [name for name in features if chosen[places[name]].null_count()]
    if gaps:
        count = sum(chosen[places[name]].null_count() for name in gaps)
        raise ValueError(
            f"{path}: {count} values are missing, in the columns {_listed(gaps)}: fill them in or "
            "remove the rows or columns"
        )
    remarks = [*_about_columns(wanted), f"{len(features)} features: {_listed(features)}"]
    if text_columns:
        remarks.append(f"text columns are left out: {_listed(text_columns)}")
    return {"x": chosen.to_numpy(), **texts}, remarks


def _chosen(path: Path, names: Sequence[str], named: Mapping[str, str | None]) -> dict[str, str]:
    """Return the names of labels, domains and ids: given, or found among the names."""
    found: dict[str, str] = {}
    plain = {plain_name(name): name for name in reversed(names)}
    for kind, usual in _NAMES.items():
        name = named.get(kind)
        if name is None:
            free = (plain[one] for one in usual.split() if one in plain)
            name = next(
                (one for one in free if one not in (*found.values(), *named.values())), None
            )
        elif name not in names:
            raise ValueError(f"{path} has no column {name!r}; the columns are {_listed(names)}")
        if name is not None:
            found[kind] = name
    return found


def _codes(column: pl.Series) -> Array:
    """Return labels, domains or ids as text; 7 and 7.0 are equal."""
    text = plain_values(column).cast(pl.String).fill_null("").str.normalize("NFC")
    known = text.set(text.is_in(UNKNOWN_WORDS), None)
    whole = whole_numbers(known.drop_nulls())
    text = text if whole is None else text.str.replace(r"\.0+$", "")
    return np.array(text.to_list(), dtype=str)


def _about_columns(wanted: Mapping[str, str]) -> list[str]:
    """Say which columns are labels and domains, and how domains are used."""
    lines = [f"{kind} from {name!r}" for kind, name in wanted.items() if kind in _NAMES]
    remarks = [", ".join(lines)] if lines else []
    if "domains" in wanted:
        remarks.append(
            f"pass --domains if {wanted['domains']!r} is a nuisance such as a batch or a device: "
            "candidates then come from the item's own domain"
        )
    return remarks


def _standardized_by_domain(store: ItemStore) -> ItemStore:
    """Standardize each feature or channel within each domain."""
    domains = store.domains
    if domains is None or bool((domains < 0).any()):
        raise ValueError(f"{store.name}: standardize domain needs the domain of every item")
    values, axes = store.tensor.double(), (0,) if store.tensor.ndim == 2 else (0, 2)
    for domain in domains.unique():
        rows = domains == domain
        deviation, mean = torch.std_mean(values[rows], dim=axes, correction=0, keepdim=True)
        deviation[deviation <= 1e-6 * mean.abs()] = torch.inf  # constant in this domain
        values[rows] = (values[rows] - mean) / deviation
    return replace(store, tensor=values.nan_to_num(0.0).float())


def _listed(names: Sequence[str]) -> str:
    """Join the first few of many names."""
    return ", ".join(names[:_LISTED]) + ", ..." * (len(names) > _LISTED)
