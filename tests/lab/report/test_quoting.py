"""Pages quote their figures from the committed results, and every quote is what the files say."""

import json
from pathlib import Path

import pytest
import quotes
from compare.results import cell
from quotes import BLOCK, INLINE, refreshed

ROOT = Path(__file__).parents[3]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]
PAGES += [ROOT / "benchmarks/README.md", ROOT / "reproduction/README.md"]
PAGES = [page for page in PAGES if "gallery" not in page.parts]


def test_every_quote_of_a_page_is_what_the_files_say():
    count = 0
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert refreshed(text, page.parent) == text, page
        found = len([*INLINE.findall(text), *BLOCK.findall(text)])
        assert found == text.count("<!-- quote: "), page
        count += found
    assert count > 0


def test_scores_on_pages_name_their_loss_temperature_and_share():
    quote = "<!-- quote: table a.json runs few={scores/few_label_1/mean:.1p} -->"
    assert quotes.unnamed_settings(f"InfoNCE, temperature 0.2, no teacher:\n\n{quote}") == []
    (wanting,) = quotes.unnamed_settings(f"Accuracy of InfoNCE:\n\n{quote}")
    assert wanting.startswith("temperature and share of the quote")
    assert {page: quotes.unnamed_settings(page.read_text(encoding="utf-8")) for page in PAGES} == {
        page: [] for page in PAGES
    }


def test_a_stale_number_is_brought_up_to_date_and_what_stands_around_it_is_kept(tmp_path):
    (tmp_path / "a.csv").write_text("n,error\n1,0.25\n2,-0.5\n")
    for what, shown in (
        ("error:.2f n=2", "-0.50"),
        ("error:~.2f n=2", "-.50"),
        ("count:d", "2"),
        ("largest/error:.1f", "0.5"),
        ("min/error:+.1f", "-0.5"),
        ("error:.0% n=1", "25%"),
        ("error:+.1p n=1", "+25.0"),
    ):
        comment = f"<!-- quote: value a.csv {what} -->"
        assert refreshed(f"It is (9.9e+26{comment}).", tmp_path) == f"It is ({shown}{comment})."


def test_the_script_updates_pages_and_names_a_page_that_it_cannot(tmp_path, monkeypatch, capsys):
    (tmp_path / "a.csv").write_text("n\n1\n")
    page = tmp_path / "docs" / "page.md"
    page.parent.mkdir()
    page.write_text("7<!-- quote: value ../a.csv n:d -->\n")
    monkeypatch.setattr("sys.argv", ["quotes.py", str(tmp_path)])
    quotes.main()
    assert page.read_text().startswith("1<!--")
    quotes.main()
    assert capsys.readouterr().out == f"written: {page}\n"
    page.write_text("7<!-- quote: value ../b.csv n:d -->\n")
    with pytest.raises(SystemExit, match="2"):
        quotes.main()
    assert f"{page}: cannot quote" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1<!-- quote: value a.csv error:.2f -->", "2 records match, expected one"),
        ("1<!-- quote: value a.csv none:.2f n=1 -->", "there is nothing at none"),
        ("1<!-- quote: value a.csv error:q n=1 -->", "cannot quote .*Unknown format code"),
        ("1<!-- quote: value *-b.csv error:.2f -->", r"there is no file .*\*-b\.csv"),
        ("1<!-- quote: guess a.csv -->", "there is no quotation guess, only value, table"),
        ("1<!-- quote: value -->", "not enough values"),
        ("1<!-- quote: paired c.json soft ndcg@20/mean -->", "there is nothing at soft"),
        ("<!-- /quote -->\n", "neither a number before it nor an end"),
    ],
)
def test_a_quote_that_makes_no_sense_is_refused(tmp_path, text, message):
    (tmp_path / "a.csv").write_text("n,error\n1,0.25\n2,0.5\n")
    stored = cell(info_nce=[0.5], hard=[0.5]).stored()
    (tmp_path / "c.json").write_text(json.dumps(stored))
    with pytest.raises(ValueError, match=message):
        refreshed(text, tmp_path)
