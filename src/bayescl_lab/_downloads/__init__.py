"""Published data sets: where they are, fetching with resume, checksums, safe unpacking.

Stands on the standard library alone, so that every room may use it.
"""

from bayescl_lab._downloads.archives import extract_archive
from bayescl_lab._downloads.files import Progress, fetch_file, fetch_source, verify_file
from bayescl_lab._downloads.sources import DATA_VARIABLE, DataSource, RemoteFile, data_folder

__all__ = [
    "DATA_VARIABLE",
    "DataSource",
    "Progress",
    "RemoteFile",
    "data_folder",
    "extract_archive",
    "fetch_file",
    "fetch_source",
    "verify_file",
]
