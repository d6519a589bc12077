"""A loss with the interface of open_clip's ``ClipLoss``.

It replaces open_clip's class and does not need open_clip itself. One of the towers can be the
teacher of soft targets. Equal captions can be passed as groups, so they are not negatives.
Tested against open_clip 3.3.
"""

from __future__ import annotations

from typing import Any, Literal

from torch import nn

from bayescl import distributed
from bayescl._checks import check_choice
from bayescl._types import Float, Int, Tensor
from bayescl.integrations._losses import loss_of_one_item, new_loss
from bayescl.integrations._texts import text_keys
from bayescl.losses import ContrastiveLoss, InfoNCELoss


class ClipLoss(nn.Module):
    """Loss of this package between images and texts, with open_clip's arguments.

    Images and texts are both anchors. Features are not scaled, because open_clip's models return
    unit vectors. Candidates of other devices always carry a gradient, as with
    ``local_loss=True, gather_with_grad=True`` in open_clip.

    Args:
        local_loss, gather_with_grad, cache_labels, rank: Accepted for compatibility and ignored.
        world_size: Number of processes to gather from; 1 does not gather. Default: 1.
        use_horovod: Must be False.
        loss: Class of :mod:`bayescl.losses`. Default: InfoNCE, which is open_clip's own loss.
        teacher: Tower that is the teacher of both sides, ``"text"`` or ``"image"``. Its features
            get no gradient from the target. Default: no soft targets.
        **options: Further arguments of the loss, such as ``positive_share`` and ``alpha``.

    Raises:
        ValueError: if ``use_horovod`` is set or an argument is out of range.

    Example:
        >>> loss = ClipLoss()
        >>> loss(torch.eye(3), torch.eye(3), logit_scale=torch.tensor(2.0))
        tensor(0.2395)
    """

    def __init__(
        self,
        local_loss: bool = False,
        gather_with_grad: bool = False,
        cache_labels: bool = False,
        rank: int = 0,
        world_size: int = 1,
        use_horovod: bool = False,
        *,
        loss: type[ContrastiveLoss] = InfoNCELoss,
        teacher: Literal["text", "image"] | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        del local_loss, gather_with_grad, cache_labels, rank
        if use_horovod:
            raise ValueError("use_horovod must be False: rows are gathered by torch.distributed")
        if teacher is not None:
            check_choice("teacher", teacher, ("text", "image"))
        self.world_size = world_size
        self.teacher = teacher
        self.loss = new_loss(loss, normalize=False, **options)

    def forward(
        self,
        image_features: Float[Tensor, "batch dim"],
        text_features: Float[Tensor, "batch dim"],
        logit_scale: Float[Tensor, ""],
        logit_bias: Float[Tensor, ""] | None = None,
        output_dict: bool = False,
        *,
        teacher: Float[Tensor, "batch teacher_dim"] | None = None,
        **metadata: Any,
    ) -> Float[Tensor, ""] | dict[str, Tensor]:
        """Compute the loss of a batch of pairs; 0 for a batch of one pair.

        Args:
            image_features: Embeddings of images, of length 1.
            text_features: Embeddings of their texts, in the same order, of length 1.
            logit_scale: Factor of the similarities, 1 / temperature. Differentiated.
            logit_bias: Bias of the model, if it has one. It cancels in the softmax.
            output_dict: Whether to return ``{"contrastive_loss": value}``. Default: False.
            teacher: Embeddings of the pairs by any model. Default: the features of the tower given
                to the constructor.
            **metadata: ``groups`` (for equal captions, see :func:`caption_groups`), ``domains``,
                ``labels`` and ``margin`` of :meth:`~bayescl.losses.ContrastiveLoss.in_batch`.
        """
        if teacher is None and self.teacher is not None:
            teacher = text_features if self.teacher == "text" else image_features
        self.loss.gather = self.world_size > 1 and distributed.is_initialized()
        value = loss_of_one_item(self.loss, image_features, text_features)
        if value is None:
            value = self.loss.in_batch(
                image_features,
                text_features,
                both_directions=True,
                temperature=1 / logit_scale,
                teacher=teacher,
                **metadata,
            )
        else:
            value = value + 0 * logit_scale.sum()
        if logit_bias is not None:
            value = value + 0 * logit_bias.sum()  # gives the bias a gradient
        return {"contrastive_loss": value} if output_dict else value


def caption_groups(texts: Int[Tensor, "batch length"]) -> Int[Tensor, " batch"]:
    """Return one integer per caption, equal for captions with equal tokens.

    Args:
        texts: Output of open_clip's tokenizer.

    Example:
        >>> groups = caption_groups(torch.tensor([[1, 5, 2], [1, 6, 2], [1, 5, 2]]))
        >>> (groups[:, None] == groups).int()
        tensor([[1, 0, 1],
                [0, 1, 0],
                [1, 0, 1]], dtype=torch.int32)
    """
    return text_keys({"input_ids": texts})
