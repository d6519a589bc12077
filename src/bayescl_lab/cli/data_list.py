"""``bayescl data list``."""

from __future__ import annotations


def command() -> int:
    """List the data sets that commands know by name, with source, size and terms of use."""
    from rich.table import Table

    from bayescl_lab._downloads import DATA_VARIABLE, data_folder
    from bayescl_lab.cli._console import console
    from bayescl_lab.cli._data import in_bytes, is_there, sources
    from bayescl_lab.images.catalog import DIGITS

    table = Table(title=f"data sets of {data_folder()}", title_justify="left", show_lines=True)
    table.add_column("name", no_wrap=True)
    table.add_column("description", ratio=3)
    table.add_column("here", no_wrap=True)
    table.add_column("download", no_wrap=True)
    table.add_column("terms", ratio=2)
    table.add_row(DIGITS.name, DIGITS.title, "always", "with scikit-learn", DIGITS.terms)
    for source in sources():
        table.add_row(
            source.name,
            source.title,
            "yes" if is_there(source) else "no",
            in_bytes(source.size) if source.files else "by hand",
            source.terms,
        )
    screen = console()
    screen.print(table)
    screen.print(
        f"The data folder is {DATA_VARIABLE}, or ./data if it is not set. bayescl data fetch NAME "
        "downloads a data set or explains how to get it; bayescl data verify NAME checks a copy."
    )
    return 0
