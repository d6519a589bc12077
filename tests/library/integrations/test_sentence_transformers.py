"""Ranking losses in sentence-transformers: parity with its own, duplicates, caching, resuming."""

from __future__ import annotations

import json
import math
from itertools import product
from pathlib import Path

import pytest
import torch

pytest.importorskip("sentence_transformers", reason="needs sentence-transformers")
pytest.importorskip("datasets", reason="needs the trainer's requirements")

from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer
from sentence_transformers.sentence_transformer import losses as theirs
from sentence_transformers.sentence_transformer.modules import Dense
from torch import Tensor

import bayescl
from bayescl import Margin, Rows
from bayescl.integrations import sentence_transformers as ours
from integrations import tiny_models

pytestmark = pytest.mark.filterwarnings("default")

ANCHORS = ["alpha cat", "beta dog runs", "gamma", "delta bird sleeps red", "fish"]
POSITIVES = ["cat red", "dog", "gamma gamma blue eats", "bird", "fish flies green"]
FIRST_NEGATIVES = ["red", "blue dog", "eats eats", "alpha beta", "green cat"]
SECOND_NEGATIVES = ["runs", "sleeps", "flies red", "delta", "gamma fish bird"]
COLUMNS = {
    "pairs": [ANCHORS, POSITIVES],
    "triplets": [ANCHORS, POSITIVES, FIRST_NEGATIVES],
    "four columns": [ANCHORS, POSITIVES, FIRST_NEGATIVES, SECOND_NEGATIVES],
}
SYMMETRIC = {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"}
BAYESIAN = "BayesianContrastiveLoss"

RULES = {"both_directions", "duplicates", "margin", "teacher", "label_column", "mini_batch_size"}
RULES |= {"num_positives"}


def ranking(
    model: SentenceTransformer, name: str = "InfoNCELoss", kind: str = "", **options: object
) -> ours.ContrastiveRankingLoss:
    """A loss at the library's scale of 20, plain or cached, with rules and options of its own."""
    rules = {option: options.pop(option) for option in RULES & options.keys()}
    loss = getattr(bayescl, name)(**{"temperature": 0.05, **options})
    return getattr(ours, f"{kind}ContrastiveRankingLoss")(model, loss, **rules)


def model_of(kind: str, **options: object) -> SentenceTransformer:
    made = tiny_models.static() if kind == "static" else tiny_models.bert(**options)
    return made.eval()  # the trainer decides on the mode; here nothing is dropped


def step(loss: torch.nn.Module, model: SentenceTransformer, columns: list[list[str]]) -> Tensor:
    model.zero_grad()
    value = loss(tiny_models.features(model, columns), None)
    value.backward()
    return value.detach()


def embedded(model: SentenceTransformer, columns: list[list[str]]) -> list[Tensor]:
    return [model(column)["sentence_embedding"] for column in tiny_models.features(model, columns)]


def gradients(model: torch.nn.Module) -> dict[str, Tensor]:
    with_grad = ((name, parameter.grad) for name, parameter in model.named_parameters())
    return {name: gradient.clone() for name, gradient in with_grad if gradient is not None}


def assert_same_step(mine, reference, model: SentenceTransformer, columns: list) -> None:
    outcomes = []
    for loss in (mine, reference):
        torch.manual_seed(1)
        outcomes += [step(loss, model, columns), gradients(model)]
    value, found, expected, wanted = outcomes
    torch.testing.assert_close(value, expected, rtol=1e-6, atol=1e-6)
    # A gradient of a fresh model reaches some tens; float32 keeps 1e-7 of its largest terms.
    scale = max(1.0, *(gradient.abs().max().item() for gradient in wanted.values()))
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5 * scale)


@pytest.mark.parametrize("kind", ["static", "bert", "cached, with dropout"])
@pytest.mark.parametrize("symmetric", [False, True])
def test_info_nce_is_multiple_negatives_ranking_loss(kind: str, symmetric: bool) -> None:
    cached = kind.startswith("cached")
    model = model_of(kind, **({"dropout": 0.3} if cached else {})).train(cached)
    prefix, options = ("Cached", {"mini_batch_size": 2}) if cached else ("", {})
    reference = getattr(theirs, f"{prefix}MultipleNegativesRankingLoss")(
        model, **options, **(SYMMETRIC if symmetric else {})
    )
    for columns in COLUMNS.values():
        made = getattr(ours, f"{prefix}ContrastiveRankingLoss")
        mine = made(model, both_directions=symmetric, **options)  # its default is theirs
        assert_same_step(mine, reference, model, columns)


@pytest.mark.parametrize("name", ["HardContrastiveLoss", "BayesianContrastiveLoss"])
@pytest.mark.parametrize(
    "rules",
    [
        {},
        {"teacher": "documents"},
        {
            "teacher": "documents",
            "both_directions": True,
            "margin": Margin(absolute=0.05, extra=True),
        },
    ],
)
def test_cached_equals_plain(name: str, rules: dict) -> None:
    model = model_of("bert")
    columns = [ANCHORS, [*POSITIVES[:4], POSITIVES[0]], FIRST_NEGATIVES, SECOND_NEGATIVES]
    loss = getattr(bayescl, name)(temperature=0.2)
    plain = ours.ContrastiveRankingLoss(model, loss, **rules)
    cached = ours.CachedContrastiveRankingLoss(model, loss, mini_batch_size=2, **rules)
    assert_same_step(cached, plain, model, columns)


def test_matryoshka_around_info_nce_is_matryoshka_around_theirs() -> None:
    model = model_of("bert")
    for prefix, options in (("", {}), ("Cached", {"mini_batch_size": 2})):
        reference = getattr(theirs, f"{prefix}MultipleNegativesRankingLoss")(model, **options)
        mine = ranking(model, kind=prefix, **options)
        sizes = [8, 4, 2], [1.0, 0.5, 2.0]
        wrapped = [theirs.MatryoshkaLoss(model, loss, *sizes) for loss in (mine, reference)]
        assert_same_step(*wrapped, model, COLUMNS["triplets"])
    repeated = [ANCHORS, [*POSITIVES[:4], POSITIVES[0]]]  # masked at every size
    for rules in ({}, {"teacher": "documents"}):
        plain = ranking(model, BAYESIAN, **rules)
        cached = ranking(model, BAYESIAN, "Cached", mini_batch_size=2, **rules)
        wrapped = [theirs.MatryoshkaLoss(model, loss, [8, 4]) for loss in (cached, plain)]
        assert_same_step(*wrapped, model, repeated)


def assert_drops(
    dropped: list[tuple[int, int]],
    model: SentenceTransformer,
    columns: list[list[str]],
    both: bool = False,
) -> Tensor:
    """The value, which is that of our own loss without pairs of an anchor and a candidate."""
    value = step(ranking(model, both_directions=both), model, columns)
    queries, documents, extra = embedded(model, columns)
    valid = torch.ones(4, 8, dtype=torch.bool)
    valid[tuple(torch.tensor(dropped).T)] = False
    loss = bayescl.InfoNCELoss(temperature=0.05)
    expected = loss.in_batch(queries, documents, extra=extra, valid=valid)
    if both:
        expected = (expected + loss.in_batch(documents, queries, valid=valid[:, :4].T)) / 2
    torch.testing.assert_close(value, expected.detach())
    return value


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_duplicate_is_not_a_negative_under_any_padding(side: str) -> None:
    model = model_of("bert", padding_side=side)
    # "dog" is padded to 1 + 3 words in the second column and to 2 in the third.
    positives = ["dog", "red", "dog", "red green blue eats"]
    negatives = ["cat cat", "dog", "flies", "blue"]
    columns = [["alpha", "beta beta", "gamma", "delta"], positives, negatives]
    value = assert_drops([(0, 2), (2, 0), (0, 5), (2, 5)], model, columns)
    kept = ranking(model, duplicates="keep")
    assert_same_step(kept, theirs.MultipleNegativesRankingLoss(model), model, columns)
    assert step(kept, model, columns) > value


@pytest.mark.parametrize("both", [False, True])
def test_a_candidate_is_dropped_for_each_reason_alone(both: bool) -> None:
    # Row 2 has row 0's anchor, row 3's positive is that anchor; the last two negatives repeat a
    # positive and an anchor.
    anchors, positives = ["cat", "dog", "cat", "red"], ["bird", "fish", "blue", "cat"]
    columns = [anchors, positives, ["eats", "runs", "fish", "red"]]
    dropped = [(0, 2), (0, 3), (2, 0), (2, 3), (1, 6), (3, 7)]
    assert_drops(dropped, model_of("static"), columns, both)


@pytest.mark.parametrize("kind", ["", "Cached"])
@pytest.mark.parametrize("strategy", ["absolute", "relative"])
def test_a_margin_by_a_teacher_is_gists_mask(kind: str, strategy: str) -> None:
    guide, model = tiny_models.bert(dim=4, seed=5), model_of("bert")
    cached = {"mini_batch_size": 2} if kind else {}
    other = {"contrast_anchors": False, "contrast_positives": False, **cached}
    for gap in (0.0, 0.1):
        margin = Margin(
            **{strategy: -gap if strategy == "absolute" else 1 - gap}, extra=True, by_teacher=True
        )
        reference = getattr(theirs, f"{kind}GISTEmbedLoss")(
            model, guide, temperature=0.05, margin_strategy=strategy, margin=gap, **other
        )
        mine = ranking(model, kind=kind, teacher=guide, margin=margin, positive_share=1, **cached)
        assert_same_step(mine, reference, model, COLUMNS["triplets"])


def test_a_margin_and_the_label_column_reach_the_loss() -> None:
    model, columns = model_of("static"), COLUMNS["triplets"]
    domains, margin = torch.tensor([0, 0, 1, 1, 1]), Margin(relative=0.9)
    known = {"domains": domains, "margin": margin, "both_directions": True}
    wrapped = ranking(model, margin=margin, both_directions=True, label_column="domains")
    queries, documents, extra = embedded(model, columns)
    wanted = bayescl.InfoNCELoss(temperature=0.05).in_batch(
        queries, documents, extra=extra, **known
    )
    torch.testing.assert_close(wrapped(tiny_models.features(model, columns), domains), wanted)
    scores = torch.rand(5)  # a column that other losses read
    assert ranking(model)(tiny_models.features(model, columns), scores).isfinite()
    classes = torch.tensor([0, 0, -1, -1, -1])
    for name in ("InfoNCELoss", "SupervisedContrastiveLoss"):
        value = ranking(model, name, label_column="labels")(
            tiny_models.features(model, columns), classes
        )
        loss = getattr(bayescl, name)(temperature=0.05)
        wanted = loss.in_batch(queries, documents, extra=extra, labels=classes)
        torch.testing.assert_close(value, wanted)


@pytest.mark.parametrize("both", [False, True])
def test_the_documents_are_the_teacher_of_both_directions(both: bool) -> None:
    model, columns = model_of("bert"), COLUMNS["triplets"]
    options = {"temperature": 0.2, "positive_share": 0.8}
    loss = bayescl.InfoNCELoss(**options)
    mine = ranking(model, teacher="documents", both_directions=both, **options)

    class ByHand(torch.nn.Module):
        def forward(self, features: list[dict], labels: None = None) -> Tensor:
            queries, documents, extra = (model(column)["sentence_embedding"] for column in features)
            return loss.in_batch(
                queries, documents, extra=extra, teacher=documents.detach(), both_directions=both
            )

    assert_same_step(mine, ByHand(), model, columns)


@pytest.mark.parametrize("kind", ["", "Cached"])
def test_the_label_column_or_another_model_is_the_teacher(kind: str) -> None:
    guide, model = tiny_models.bert(dim=4, seed=5), model_of("bert")
    columns, cached = COLUMNS["triplets"], {"mini_batch_size": 2} if kind else {}
    features = tiny_models.features(model, columns)
    queries, documents, extra = embedded(model, columns)
    loss = bayescl.InfoNCELoss(temperature=0.05)
    taught = [guide.encode(texts, convert_to_tensor=True) for texts in columns]

    found = ranking(model, kind=kind, teacher="label", **cached)(features, taught[1])
    wanted = loss.in_batch(queries, documents, extra=extra, teacher=taught[1])
    torch.testing.assert_close(found, wanted)
    with pytest.raises(ValueError, match="teacher='label' needs a label column"):
        ranking(model, teacher="label")(features, None)

    rows = [Rows(part, teacher=of) for part, of in zip((queries, documents), taught, strict=False)]
    found = ranking(model, kind=kind, teacher=guide, **cached)(features, None)
    torch.testing.assert_close(found, loss.in_batch(*rows, extra=extra))
    margin = Margin(absolute=2.0, extra=True)  # masks nothing
    found = ranking(model, kind=kind, teacher=guide, margin=margin, **cached)(features, None)
    torch.testing.assert_close(found, loss.in_batch(*rows, extra=Rows(extra, teacher=taught[2])))


@pytest.mark.parametrize("teacher", ["the model itself", "a shared module"])
def test_a_teacher_that_shares_modules_leaves_them_trainable(teacher: str) -> None:
    model = tiny_models.bert(dropout=0.3).train()
    if teacher != "the model itself":
        model = SentenceTransformer(modules=[*model, Dense(8, 8)], device="cpu").train()
    guide = model if teacher == "the model itself" else SentenceTransformer(modules=list(model)[:2])
    step(ranking(model, teacher=guide), model, COLUMNS["pairs"])
    assert all(module.training for module in model.modules())
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert any(name.startswith("0.") for name in gradients(model))
    other = tiny_models.static()
    ranking(model, teacher=other)
    assert not any(parameter.requires_grad for parameter in other.parameters())


def test_rows_may_have_fewer_hard_negatives() -> None:
    for kind, prompt in product(("static", "bert"), (None, "dog runs ")):
        model = model_of(kind)
        model.prompts["p"] = prompt or ""
        columns = [ANCHORS, POSITIVES, ["red", "", "eats eats", "", "green"], ["runs", *[""] * 4]]
        prompts = {} if prompt is None or kind == "static" else {"prompt": prompt}
        features = [model.preprocess(texts, **prompts) for texts in columns]
        queries, documents, *extra = (model(dict(part))["sentence_embedding"] for part in features)
        kept = torch.tensor([True, False, True, False, True, True, *[False] * 4])
        loss = bayescl.InfoNCELoss(temperature=0.05)
        wanted = loss.in_batch(queries, documents, extra=torch.cat(extra)[kept])
        for both in (False, True):
            if both:
                wanted = (wanted + loss.in_batch(documents, queries)) / 2
            value = ranking(model, both_directions=both, duplicates="keep")(features, None)
            torch.testing.assert_close(value, wanted)


@pytest.mark.parametrize("kind", ["", "Cached"])
def test_several_positives_share_an_anchor(kind: str) -> None:
    model, cached = model_of("bert"), {"mini_batch_size": 2} if kind else {}
    second = ["runs", "", "flies red", "", "dog"]  # the last repeats another row's positive
    columns = [ANCHORS, POSITIVES, second, FIRST_NEGATIVES]
    queries, first, *more, extra = embedded(model, columns)
    documents = torch.cat([first, more[0][[0, 2, 4]]])
    anchor_of = torch.tensor([0, 1, 2, 3, 4, 0, 2, 4])
    valid = torch.ones(5, 13, dtype=torch.bool)
    valid[1, 7] = valid[4, 1] = False
    known = {"anchor_of": anchor_of, "extra": extra, "valid": valid}
    for name in ("InfoNCELoss", BAYESIAN):
        loss = ranking(model, name, kind, num_positives=2, **cached)
        wanted = loss.loss.in_batch(queries, documents, **known)
        torch.testing.assert_close(loss(tiny_models.features(model, columns), None), wanted)


def test_the_label_column_may_hold_groups_of_documents_and_several_fields() -> None:
    model, columns = model_of("static"), COLUMNS["triplets"]
    queries, documents, extra = embedded(model, columns)
    loss = bayescl.InfoNCELoss(temperature=0.05)

    def value(label_column: str | list[str], labels: Tensor) -> Tensor:
        wrapped = ranking(model, label_column=label_column)
        return wrapped(tiny_models.features(model, columns), labels)

    keys = torch.tensor([[3, 7], [3, -1], [-1, 3], [5, 5], [9, 3]])
    groups = keys[:, 0]
    wanted = loss.in_batch(queries, documents, extra=Rows(extra, groups=keys[:, 1]), groups=groups)
    torch.testing.assert_close(value("groups", keys), wanted)
    wanted = loss.in_batch(queries, documents, extra=extra, groups=groups)
    torch.testing.assert_close(value("groups", groups), wanted)
    domains = torch.tensor([0, 0, 0, 1, 1])
    wanted = loss.in_batch(queries, documents, extra=extra, groups=groups, domains=domains)
    both = torch.stack([domains, groups], dim=1)
    torch.testing.assert_close(value(["domains", "groups"], both), wanted)
    with pytest.raises(ValueError, match=r"label must have shape \[batch, 2\], .* domains, groups"):
        value(["domains", "groups"], domains)
    for field in ("labels", "groups", "domains"):
        with pytest.raises(ValueError, match=f"label_column='{field}' needs a label column"):
            value(field, None)


def loss_by_scores(
    logits: list[list[float]], scores: list[list[float]], positives: int, share: float | None
) -> float:
    """Cross-entropy between each row's documents' scores and all documents, in float64 loops."""
    batch, losses = len(logits), []
    for i, row in enumerate(logits):
        own = [k * batch + i for k in range(len(scores[i]))]
        weights = [0.0 if math.isnan(score) else math.exp(score / 0.5) for score in scores[i]]
        first, others = sum(weights[:positives]), sum(weights[positives:])
        left = (others / (first + others) if first else 0.0) if share is None else 1 - share
        target = [left * weight / others if others else 0.0 for weight in weights[positives:]]
        for k in range(positives):
            columns = [j for j in range(len(row)) if j not in own[:positives]] + [own[k]]
            total = sum(math.exp(row[j]) for j in columns)
            losses.append(-(1 - sum(target)) * math.log(math.exp(row[own[k]]) / total))
            for part, j in zip(target, own[positives:], strict=True):
                losses[-1] -= part * math.log(math.exp(row[j]) / total)
    return sum(losses) / len(losses)


@pytest.mark.parametrize("kind", ["", "Cached"])
@pytest.mark.parametrize("positives", [1, 2])
@pytest.mark.parametrize("share", [None, 0.6])
def test_scores_of_hard_negatives_are_their_target(
    kind: str, positives: int, share: float | None
) -> None:
    model = model_of("bert")
    scores = torch.rand(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    scores[0, 2] = scores[1, 0] = scores[2, 1:] = scores[3] = torch.nan
    loss = ranking(
        model, kind=kind, teacher="scores", num_positives=positives, duplicates="keep",
        temperature=0.2, teacher_temperature=0.5, positive_share=share,
        **({"mini_batch_size": 2} if kind else {}),
    )  # fmt: skip
    columns = COLUMNS["four columns"]
    queries, *documents = (
        torch.nn.functional.normalize(part.double()) for part in embedded(model, columns)
    )
    logits = (queries @ torch.cat(documents).T / 0.2).tolist()
    wanted = loss_by_scores(logits, scores.tolist(), positives, share)
    value = loss(tiny_models.features(model, columns), scores.float())
    assert value.item() == pytest.approx(wanted, rel=2e-6)


def test_scores_that_do_not_fit_are_refused() -> None:
    model = model_of("static")
    loss, features = ranking(model, teacher="scores"), tiny_models.features
    infinite = torch.full((5, 2), 0.5).index_fill_(0, torch.tensor([3]), torch.inf)
    for columns, scores, message in (
        ("triplets", torch.rand(5), r"label must have shape \[batch, 2\]"),
        ("pairs", torch.rand(5, 1), "needs a column of hard negatives"),
        ("triplets", infinite, r"row 3 of the batch: .* finite or NaN, got \[inf, inf\]"),
        ("triplets", None, "teacher='scores' needs a label column"),
    ):
        with pytest.raises(ValueError, match=message):
            loss(features(model, COLUMNS[columns]), scores)


def test_a_last_batch_of_one_pair_costs_nothing_and_one_of_duplicates_is_finite() -> None:
    model = model_of("bert")
    for kind, both in product(("", "Cached"), (False, True)):
        loss = ranking(model, BAYESIAN, kind, both_directions=both)
        assert step(loss, model, [["cat"], ["dog"]]) == 0
        assert all(not gradient.any() for gradient in gradients(model).values())
    model = model_of("static")
    assert step(ranking(model, BAYESIAN), model, [["cat"] * 3, ["dog"] * 3]).isfinite()
    assert all(gradient.isfinite().all() for gradient in gradients(model).values())


def test_the_loss_follows_the_models_mode_and_gathers_nothing_in_a_single_process() -> None:
    model = model_of("static")
    alone, gathering = (ranking(model, BAYESIAN, gather=gather) for gather in (False, True))
    assert_same_step(gathering, alone, model, COLUMNS["pairs"])
    for training in (True, False):
        step(alone, model.train(training), COLUMNS["pairs"])
        assert alone.loss.training is training


def test_a_learnable_temperature_gets_the_cached_gradient_with_its_factor() -> None:
    model = model_of("bert")
    found = []
    for made in (ours.ContrastiveRankingLoss, ours.CachedContrastiveRankingLoss):
        temperature = bayescl.LearnableTemperature(0.1)
        wrapped = made(model, bayescl.InfoNCELoss(temperature=temperature))
        for factor in (0.5, 2.0):  # two steps of accumulation
            columns = tiny_models.features(model, COLUMNS["pairs"])
            (wrapped(columns, None) * factor).backward()
        found.append(temperature.logit.grad)
    torch.testing.assert_close(*found)


def test_settings_are_for_the_model_card() -> None:
    model = model_of("bert")
    options = {"temperature": 0.1, "tau_plus": 0.2, "mini_batch_size": 4}
    wrapped = ranking(model, BAYESIAN, "Cached", **options)
    settings = json.loads(json.dumps(wrapped.get_config_dict()))
    assert "BayesianContrastiveLoss(" in settings["loss"]
    assert "tau_plus=0.2" in settings["loss"]
    assert "temperature=0.1" in settings["loss"]
    assert settings["mini_batch_size"] == 4


def test_domain_batches_serve_the_trainer(tmp_path: Path) -> None:
    model = model_of("static")
    rows = Dataset.from_dict(
        {"anchor": ANCHORS * 8, "positive": POSITIVES * 8, "label": [i % 4 for i in range(40)]}
    )
    seen: list[set[int]] = []

    class Recorded(ours.ContrastiveRankingLoss):
        def forward(self, features: list, labels: Tensor) -> Tensor:
            seen.append(set(labels.tolist()))
            return super().forward(features, labels)

    settings = tiny_models.settings(
        tmp_path,
        num_train_epochs=2,
        per_device_train_batch_size=10,
        batch_sampler=lambda dataset, batch_size, **_: bayescl.DomainBatchSampler(
            dataset["label"], batch_size, num_domains=2
        ),
    )
    loss = Recorded(model, label_column="domains")
    SentenceTransformerTrainer(model=model, args=settings, train_dataset=rows, loss=loss).train()
    assert [len(domains) for domains in seen] == [2] * 8


def test_wrong_arguments_are_refused() -> None:
    model = model_of("static")
    for options in (
        {"duplicates": "drop"},
        {"teacher": "queries"},
        {"label_column": "speaker"},
        {"label_column": "labels", "teacher": "label"},
        {"reduction": "none"},
    ):
        with pytest.raises(ValueError, match=next(iter(options))):
            ranking(model, **options)
    with pytest.raises(ValueError, match="needs label_column='groups'"):
        ours.ContrastiveRankingLoss(model, bayescl.OracleContrastiveLoss())
    for options, message in (
        ({"teacher": True}, 'teacher must be "documents", .* got True'),
        ({"margin": 0.1}, r"margin must be Margin\(absolute=0.1\), got 0.1"),
        ({"loss": bayescl.InfoNCELoss}, "loss must be InfoNCELoss.*, got the class InfoNCELoss"),
        ({"loss": "info_nce"}, "loss must be InfoNCELoss.*, got 'info_nce'"),
    ):
        with pytest.raises(TypeError, match=message):
            ours.ContrastiveRankingLoss(model, **{"loss": bayescl.InfoNCELoss(), **options})
    margin = Margin(absolute=0.1, by_teacher=True)
    with pytest.raises(ValueError, match="excludes nothing: anchors and positives have the same"):
        step(ranking(model, teacher="documents", margin=margin), model, COLUMNS["pairs"])
    with pytest.raises(ValueError, match="StaticEmbedding"):
        ranking(model, kind="Cached")
    with pytest.raises(ValueError, match="2 columns"):
        step(ranking(model), model, [ANCHORS])
