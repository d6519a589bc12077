"""Images as other programs write them: every color is right, or the file is refused."""

import numpy as np
import pytest

from bayescl_lab.images.folder import load_folder
from tests.lab.images.foreign_images import HEIGHT, WIDTH, Case, cases

CASES = list(cases())


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_foreign_image_is_read_rightly_or_refused(tmp_path, case: Case) -> None:
    (tmp_path / case.name).write_bytes(case.content)
    if isinstance(case.outcome, str):
        with pytest.raises(ValueError, match=case.outcome) as refusal:
            load_folder(tmp_path)
        assert "\n" not in str(refusal.value)
        return
    pixels = load_folder(tmp_path)[0].items[0].permute(1, 2, 0).numpy().astype(float)
    assert pixels.shape == (HEIGHT, WIDTH, case.outcome.shape[2])
    quarters = pixels.reshape(2, HEIGHT // 2, 2, WIDTH // 2, -1)[:, 2:-2, :, 2:-2].mean((1, 3))
    np.testing.assert_allclose(quarters, case.outcome, atol=24 if "LAB" in case.name else 6)
