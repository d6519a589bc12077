"""Tables as other programs write them: every value is right, or the file is refused."""

import re

import pytest

from bayescl_lab.ranking.data import RankingData
from bayescl_lab.ranking.readers.table import common_ids, read_interactions_of
from tests.lab.ranking.readers.foreign_tables import Case, cases

CASES = list(cases())


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_foreign_table_is_read_rightly_or_refused(write, case: Case) -> None:
    path = write(case.name, case.content)
    options = RankingData(split="time", sum_ratings=True, **case.options)
    if isinstance(case.outcome, str):
        with pytest.raises(ValueError, match=re.escape(case.outcome)) as refusal:
            read_interactions_of(path, options)
        assert "\n" not in str(refusal.value)
        return
    frame, left_out = read_interactions_of(path, options)
    ids = [common_ids([frame[kind]])[0] for kind in ("user", "item")]
    assert left_out == 0
    assert (
        frame.with_columns(ids).select("user", "item", "rating", "timestamp").rows() == case.outcome
    )
