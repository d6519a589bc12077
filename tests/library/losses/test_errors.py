"""Every bad argument gets a message that names it, its value and what was expected."""

import pytest
import torch

import bayescl
from bayescl import (
    BayesianContrastiveLoss,
    ContrastiveLoss,
    HardContrastiveLoss,
    InfoNCELoss,
    LearnableTemperature,
    Margin,
    OracleContrastiveLoss,
    Rows,
)

LOSS = InfoNCELoss()
CHECKED = BayesianContrastiveLoss(check_finite=True)
A, B = torch.randn(4, 3), torch.randn(4, 3)
NAN = torch.full((4, 3), float("nan"))
LABELS, NOTHING = torch.tensor([0, 1, 2, 3]), torch.zeros(4, 4, dtype=torch.bool)
TOO_LARGE = torch.tensor(89.0)
JUDGED = Margin(absolute=0.1, by_teacher=True)
SUPERVISED = bayescl.SupervisedContrastiveLoss()
PARAMETER = torch.nn.Parameter(torch.tensor(0.9))
ONE_COLUMN = torch.eye(4)[:1].expand(4, 4)
NESTED = torch.nested.nested_tensor([A, B], layout=torch.jagged)


# Shapes, types, layouts and devices of every other argument: ``fuzz.damaged``.
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: BayesianContrastiveLoss(alpha=0.3), r"alpha must lie in \[0.5, 1\], got 0.3"),
        (lambda: BayesianContrastiveLoss(beta=0.4), r"beta must lie in \[0.5, 1\], got 0.4"),
        (lambda: BayesianContrastiveLoss(tau_plus=1.0), r"tau_plus must lie in \[0, 1\), got 1.0"),
        (lambda: BayesianContrastiveLoss(alpha=float("nan")), "alpha must be finite, got nan"),
        (lambda: BayesianContrastiveLoss(alpha=None), "alpha must be a number, got None"),
        (lambda: BayesianContrastiveLoss(alpha=1.0, beta=1.0), "alpha and beta must not both"),
        (lambda: BayesianContrastiveLoss(num_classes=1), "num_classes must be .* at least 2"),
        (lambda: BayesianContrastiveLoss(num_classes=2.5), "num_classes must be a whole number"),
        (lambda: BayesianContrastiveLoss(ranks="low"), "ranks must be one of mid, upper"),
        (
            lambda: HardContrastiveLoss(concentration=-1),
            r"concentration must lie in \[0, inf\), got -1",
        ),
        (lambda: InfoNCELoss(temperature=0), "temperature must be positive, got 0"),
        (lambda: InfoNCELoss(temperature=float("inf")), "temperature must be finite"),
        (lambda: InfoNCELoss(reduction="median"), "reduction must be one of mean, sum, none"),
        (lambda: InfoNCELoss(engine="warp"), "engine must be one of"),
        (lambda: InfoNCELoss(positive_share=0.0), r"positive_share must lie in \(0, 1\], got 0.0"),
        (lambda: InfoNCELoss(teacher_temperature=0), "teacher_temperature must be positive, got 0"),
        (lambda: LearnableTemperature(2.0), r"initial must lie in \(0.01, 1\), got 2.0"),
        (lambda: LearnableTemperature(0.1, 0.5, 0.2), "minimum must be below maximum"),
        (lambda: LOSS(A, B[:3]), r"view_2 must have shape \[4, 3\], got \[3, 3\]"),
        (lambda: LOSS(A[0], B[0]), r"view_1 must have shape \[rows, dim\], got \[3\]"),
        (lambda: LOSS(A[:0], B[:0]), r"view_1 must not be empty, got shape \[0, 3\]"),
        (lambda: LOSS(A[:1], B[:1]), "view_1 must have at least 2 rows, got 1"),
        (lambda: LOSS(A.long(), B), "view_1 must contain floating-point numbers, got torch.int64"),
        (lambda: LOSS(A, B.to(torch.float8_e4m3fn)), "view_2 must contain numbers of 16 bits"),
        (lambda: LOSS(A, B.to_sparse()), "view_2 must be a dense tensor, got torch.sparse_coo"),
        (lambda: LOSS(NESTED, NESTED), "view_1 must be a dense tensor, got a nested tensor"),
        (lambda: LOSS(A, B.to("meta")), "view_2 must be on cpu, like the embeddings, got meta"),
        (lambda: LOSS(A, B, groups=LABELS / 2), "groups must contain integers, got torch.float32"),
        (lambda: LOSS(A, B, valid=torch.ones(4, 4, dtype=torch.bool)), r"valid .* \[8, 8\]"),
        (lambda: LOSS(A, B, valid=torch.ones(8, 8)), "valid must be boolean"),
        (
            lambda: LOSS(A, B, valid=NOTHING.repeat(2, 2)),
            "valid must be True for at least one",
        ),
        (
            lambda: LOSS.from_logits(A[:, 0], A @ B.T, valid=NOTHING),
            "valid must be True for at least one",
        ),
        (
            lambda: LOSS.sampled(A, B, Rows(A, groups=LABELS), groups=torch.eye(4).long()),
            r"candidates.groups must have shape \[4, 4\], got \[4\]",
        ),
        (lambda: LOSS(A, B, temperature=torch.tensor(-1.0)), "temperature must be positive"),
        (lambda: LOSS(A, B, temperature=1e-40), "temperature must be at least"),
        (lambda: LOSS(A, B, temperature=1 / TOO_LARGE.exp()), "got 0; if it is computed as 1"),
        (lambda: LOSS(A, B, temperature=torch.ones(2)), r"temperature must have shape \[\]"),
        (lambda: CHECKED(NAN, B), "view_1 must be finite, got 12 NaN or infinite entries"),
        (lambda: LOSS.in_batch(A[:1], B[:1]), "anchors must have at least 2 rows, got 1"),
        (
            lambda: LOSS.in_batch(A[:1], B[:1], extra=A, both_directions=True),
            "anchors must have at least 2 rows",
        ),
        (lambda: LOSS.in_batch(A, B[:3]), "positives must have shape"),
        (lambda: LOSS.in_batch(A, B, log_q=A[:3, 0]), r"log_q must have shape \[4\], got \[3\]"),
        (
            lambda: LOSS.sampled(A, B, Rows(A, log_q=A[:, 0])),
            "log_q must be given for both positives and candidates",
        ),
        (lambda: LOSS.in_batch(A, B, anchor_of=LABELS + 1), "indices of anchors from 0 to 3"),
        (lambda: LOSS.in_batch(A, B, positive_weight=-A[:, 0].abs()), "must be non-negative"),
        (lambda: LOSS.in_batch(A, B, extra=A[:3, None]), r"extra must have shape \[4, extra, 3\]"),
        (lambda: LOSS.in_batch(A, B, extra=Rows(A, log_q=A[:, 0])), "extra.log_q needs log_q of"),
        (lambda: LOSS(A, B, teacher=A[:, :0]), r"teacher must not be empty, got shape \[4, 0\]"),
        (
            lambda: LOSS.in_batch(A, B, teacher=A, extra=Rows(A, teacher=A[:, :2])),
            r"extra.teacher must have shape \[4, 3\], got \[4, 2\]",
        ),
        (
            lambda: LOSS.in_batch(A, B, extra=Rows(A, domains=LABELS)),
            "extra.domains needs domains of the anchors",
        ),
        (lambda: LOSS.in_batch(A, B, valid=NOTHING), "valid must be True for at least one"),
        (lambda: LOSS.sampled(A, B, A, valid=NOTHING), "valid must be True for at least one"),
        (lambda: LOSS.from_logits(A[:, 0], B[:, :0]), "unlabeled must not be empty"),
        (lambda: LOSS(A, B, margin=JUDGED), r"Margin\(by_teacher=True\) needs a teacher"),
        (lambda: Margin(), "Margin needs either absolute or relative"),
        (lambda: Margin(relative=0.0), "relative must be positive"),
        (lambda: LOSS.sampled(A, B, torch.randn(3, 2, 3)), r"candidates .*\[4, candidates, 3\]"),
        (lambda: LOSS.sampled(A, B, A, groups=LABELS), "groups and candidates.groups must be"),
        (lambda: LOSS.from_logits(A, B), r"positive must have shape \[anchors\]"),
        (lambda: LOSS(A, B, labels=LABELS - 2), "labels must be at least -1, which means unknown"),
        (lambda: OracleContrastiveLoss()(A, B), "OracleContrastiveLoss needs groups"),
        (
            lambda: OracleContrastiveLoss().in_batch(A, B, extra=A, groups=LABELS),
            "OracleContrastiveLoss needs extra.groups",
        ),
        (lambda: OracleContrastiveLoss().from_logits(A[:, 0], B), "needs valid, a mask"),
        (lambda: InfoNCELoss(temperature=10**400), "temperature must fit into a 64-bit float"),
        (lambda: BayesianContrastiveLoss(tau_plus=10**400), "tau_plus must fit into a 64-bit"),
        (lambda: LOSS.in_batch(A, B, log_q=A[:, 0].abs()), "log_q must contain logs of prob"),
        (lambda: LOSS(A, B, target=A), r"target must have shape \[8, 8\], got \[4, 3\]"),
        (lambda: LOSS(A, B, target=torch.ones(8, 8)), "target must contain probabilities"),
        (lambda: LOSS(A, B, target=-torch.eye(8)), "target must contain probabilities"),
        (lambda: LOSS(A, B, target=torch.eye(8), teacher=A), "cannot be combined with teacher"),
        (lambda: CHECKED(A, B, target=NAN[0, 0].expand(8, 8)), "target must be finite"),
        (
            lambda: LOSS.in_batch(A, B, target=ONE_COLUMN, both_directions=True),
            r"target \(transposed for both_directions\) must contain probabilities",
        ),
        (
            lambda: LOSS(A, B, labels=A.abs()),
            "labels must contain 0 or 1 for each class, and -1 or NaN",
        ),
        (
            lambda: LOSS.in_batch(A, B, labels=LABELS, extra=Rows(A, labels=torch.eye(4))),
            "extra.labels and labels must both have one class per row, or both several",
        ),
        (lambda: LOSS(A, B, A[:3]), r"view_3 must have shape \[4, 3\], got \[3, 3\]"),
        (lambda: SUPERVISED(A, B), "SupervisedContrastiveLoss needs labels: one integer per"),
    ],
)
def test_a_bad_value_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: LOSS([[1.0]], B), "view_1 must be a tensor, got list"),
        (lambda: LOSS(A, B, teacher=A.numpy()), "teacher must be a tensor, got ndarray"),
        (lambda: ContrastiveLoss()(A, B), "ContrastiveLoss needs an objective"),
        (lambda: LOSS(A, None), "view_2 must be a tensor, got NoneType"),
        (lambda: LOSS(A, B, margin=0.95), "margin must be a Margin, got float"),
        (lambda: InfoNCELoss(temperature=PARAMETER), "use bayescl.LearnableTemperature, or"),
        (lambda: BayesianContrastiveLoss(alpha=PARAMETER), "alpha must be a number, got a tensor"),
        (lambda: InfoNCELoss(normalize="x"), "normalize must be True or False, got 'x'"),
        (lambda: InfoNCELoss(tau=0.1), "unexpected keyword argument 'tau'"),
    ],
)
def test_what_is_no_tensor_is_refused(call, message):
    with pytest.raises(TypeError, match=message):
        call()


@pytest.mark.parametrize(("name", "value"), [("alpha", 0.2), ("beta", 2.0), ("temperature", -1.0)])
def test_setting_a_bad_value_later_is_refused_and_changes_nothing(name, value):
    loss = bayescl.BayesianContrastiveLoss(alpha=0.9, beta=0.5, temperature=0.5)
    before = getattr(loss, name)
    with pytest.raises(ValueError, match=name):
        setattr(loss, name, value)
    assert getattr(loss, name) == before


def test_reaching_the_empty_corner_by_schedule_is_refused_at_the_call():
    loss = bayescl.BayesianContrastiveLoss(alpha=0.9, beta=1.0)
    loss.alpha = 1.0
    with pytest.raises(ValueError, match="must not both be 1"):
        loss(A, B)


def test_a_check_of_finiteness_names_the_cause():
    huge = 1e30 * torch.randn(5, 3)
    loss = bayescl.InfoNCELoss(normalize=False, check_finite=True)
    with pytest.raises(
        ValueError, match=r"logits must be finite, got .* for 10 of 10 pairs: the largest emb"
    ):
        loss(huge, huge)
    with pytest.raises(ValueError, match="unlabeled must be finite, got 1 NaN"):
        loss.from_logits(torch.zeros(1), torch.tensor([[float("nan"), -float("inf")]]))
    assert loss.from_logits(torch.zeros(1), torch.tensor([[0.0, -float("inf")]])).isfinite()
    never = torch.tensor([0.0, 0.0, 0.0, -float("inf")])  # an item that is never sampled
    drawn = Rows(A, log_q=never), Rows(B, log_q=torch.zeros(4))
    for call, name in (
        (lambda: CHECKED.in_batch(A, B, log_q=never), "log_q"),
        (lambda: CHECKED.sampled(A, drawn[1], drawn[0]), "log_q"),
        (lambda: CHECKED(A, B, teacher=NAN), "teacher"),
    ):
        with pytest.raises(ValueError, match=f"{name} must be finite, got"):
            call()


def test_a_temperature_that_looks_like_a_scale_is_pointed_out():
    with pytest.warns(UserWarning, match="temperature=20 divides similarities"):
        bayescl.InfoNCELoss(temperature=20.0)


def test_a_batch_in_which_nothing_is_a_candidate_says_so_once():
    views, same = torch.randn(2, 4, 8), torch.zeros(4, dtype=torch.int64)
    loss = bayescl.BayesianContrastiveLoss()
    with pytest.warns(UserWarning, match="no anchor has a candidate"):
        assert loss(*views, groups=same) == 0
    loss(*views, groups=same)
    with pytest.warns(UserWarning, match="no anchor has a candidate"):
        bayescl.InfoNCELoss()(*views, margin=bayescl.Margin(absolute=-2.0))
    with pytest.raises(ValueError, match="no anchor has a candidate"):
        bayescl.InfoNCELoss(check_finite=True)(*views, groups=same)


def test_domains_with_few_candidates_are_pointed_out_once():
    views, domains = torch.randn(2, 40, 8), torch.arange(40) % 2
    many, few = bayescl.InfoNCELoss(check_finite=True), bayescl.InfoNCELoss(check_finite=True)
    many(*views, domains=domains)  # 38 each
    with pytest.warns(UserWarning, match="half of the anchors have at most 14 candidates"):
        few(*views, domains=torch.arange(40) % 5)
    few(*views, domains=torch.arange(40) % 5)
