"""Damaged files of every format: one line that names the file, or clean interactions.

``BAYESCL_HOSTILE=500 pytest tests/ranking/readers/test_hostile.py`` tries more of them.
"""

from __future__ import annotations

import gzip
import os
import random
import resource
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.ranking.readers.tables import parquet

from bayescl_lab.cli._app import _print_error
from bayescl_lab.ranking.data import RankingData
from bayescl_lab.ranking.datasets import guessed_columns, load_interactions

TRIES = int(os.environ.get("BAYESCL_HOSTILE", "40"))
PAIRS = [(user, item) for user in range(12) for item in range(9) if (user * item + user) % 3]
ROWS = [(f"u{user}", f"i-{item}", 1 + item % 5, 10 * item + user) for user, item in PAIRS]
HUGE = ("9" * 400, "9223372036854775808", "-1", "1e308", "1e400", "nan", "0x10", "١٢", "1_000")


def separated(separator: str, header: str = "user,item,rating,timestamp") -> bytes:
    lines = [header.replace(",", separator), *(separator.join(map(str, row)) for row in ROWS)]
    return "\n".join(lines).encode() + b"\n"


NUMBERS = [f"{user}\t{item}\t{1 + item % 5}\t{item}" for user, item in PAIRS]
LISTS = "\n".join(
    " ".join(map(str, [user, *(item for other, item in PAIRS if other == user)]))
    for user in range(12)
).encode()
PLAIN: dict[str, bytes] = {
    "a.csv": separated(","),
    "quoted.csv": separated('","', 'user","item","rating","timestamp')
    .replace(b"\n", b'"\n"')
    .join([b'"', b""])[:-1],
    "a.tsv": separated("\t"),
    "a.txt": separated(";"),
    "a.inter": separated("\t", "user:token,item:token,rating:float,timestamp:float"),
    "u.data": "\n".join(NUMBERS).encode(),
    "ratings.dat": "\n".join(NUMBERS).replace("\t", "::").encode(),
    "train.txt": LISTS,
    "a.parquet": parquet(ROWS, ["user", "item", "rating", "timestamp"]),
}
FORMATS = [*PLAIN, "a.csv.gz"]


def damaged(content: bytes, dice: random.Random) -> bytes:
    """A file with one to three kinds of damage."""
    for _ in range(dice.randint(1, 3)):
        content = dice.choice(DAMAGE)(content, dice)
    return content


def flipped(content: bytes, dice: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(dice.choice((1, 3, 20)) if content else 0):
        changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
    return bytes(changed)


def cut(content: bytes, dice: random.Random) -> bytes:
    begin = dice.randint(0, len(content))
    return content[:begin] + content[dice.choice((len(content), begin + dice.randint(0, 40))) :]


def filled(content: bytes, dice: random.Random) -> bytes:
    fillings = (b"\0", b"\0" * 64, b'"', b"\r", b"\n\n", b"\xff\xfe", dice.randbytes(8), b"," * 9)
    place = dice.randint(0, len(content))
    return content[:place] + dice.choice(fillings) + content[place:]


def enlarged(content: bytes, dice: random.Random) -> bytes:
    words = content.split(b"\n")
    place = dice.randrange(len(words))
    number = dice.choice(HUGE).encode()
    values = words[place].replace(b",", b"\t").split(b"\t")
    words[place] = words[place].replace(dice.choice(values) or b"\n", number)
    return b"\n".join(words)


def recoded(content: bytes, dice: random.Random) -> bytes:
    text = content.decode("latin-1")
    return text.replace("u", "ü").encode(dice.choice(("latin-1", "utf-16", "utf-8-sig", "utf-32")))


DAMAGE = (flipped, cut, filled, enlarged, recoded)


@pytest.mark.parametrize("name", FORMATS)
def test_a_damaged_file_gives_one_line_or_clean_interactions(name, tmp_path, capsys):
    path = tmp_path / name
    if name == "train.txt":
        (tmp_path / "test.txt").write_bytes(LISTS)
    data = str(path.parent) if name == "train.txt" else str(path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(TRIES):
        dice = random.Random(f"{name} {number}")
        if name.endswith(".gz"):
            content = gzip.compress(damaged(PLAIN["a.csv"], dice))
            content = damaged(content, dice) if dice.random() < 0.5 else content
        else:
            content = damaged(PLAIN[name], dice)
        path.write_bytes(content)
        wanted = {"min_rating": dice.choice((None, 2.0)), "split": dice.choice((None, "last"))}
        skips = name.endswith(".csv") and dice.random() < 0.3
        options = {"skip_bad_rows": True} if skips else {}
        try:
            guessed_columns(RankingData(data, **options))
            train = load_interactions(data, **wanted, **options).train
        except ValueError as error:
            _print_error(str(error))
            message = capsys.readouterr().err
            assert message.removesuffix("\n").isprintable(), (number, message)
            assert len(message) < 2100, (number, message)
            assert Path(data).name in message, (number, message)
            continue
        assert len(np.unique(train.user_ids)) == train.num_users
        assert len(np.unique(train.item_ids)) == train.num_items
        assert train.num_interactions > 0
        assert train.timestamps is None or np.isfinite(train.timestamps).all()
    unit = 1 if sys.platform == "darwin" else 2**10
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit < 2**30
