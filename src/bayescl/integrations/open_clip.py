"""A loss with the interface of open_clip's ``ClipLoss``.

It replaces open_clip's class anywhere, and does not need open_clip itself. Equal captions may be
groups, which are not each other's negatives. Tested against open_clip 3.3.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from bayescl import distributed
from bayescl.axes import Float, Int, Tensor
from bayescl.integrations._texts import text_keys
from bayescl.losses import ContrastiveLoss, InfoNCELoss


class ClipLoss(nn.Module):
    """Any loss of this package between images and texts, with open_clip's arguments.

    Both are anchors; by default the loss is InfoNCE, as open_clip's own.
    Features are used as they are, as in open_clip, whose models scale them to length 1. Candidates
    of other devices always carry a gradient, as with ``local_loss=True, gather_with_grad=True`` in
    open_clip.

    Args:
        local_loss, gather_with_grad, cache_labels, rank: accepted for compatibility, ignored.
        world_size: processes to gather from; 1 does not gather.
        use_horovod: must be False.
        loss: a class of :mod:`bayescl.losses`.
        **options: its further arguments, such as ``alpha`` and ``tau_plus``.

    Raises:
        ValueError: if ``use_horovod`` is set or an option is out of range.

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
        **options: Any,
    ) -> None:
        super().__init__()
        del local_loss, gather_with_grad, cache_labels, rank
        if use_horovod:
            raise ValueError("use_horovod must be False: rows are gathered by torch.distributed")
        self.world_size = world_size
        self.loss = loss(normalize=False, **options)

    def forward(
        self,
        image_features: Float[Tensor, "batch dim"],
        text_features: Float[Tensor, "batch dim"],
        logit_scale: Float[Tensor, ""],
        logit_bias: Float[Tensor, ""] | None = None,
        output_dict: bool = False,
        **known: Any,
    ) -> Float[Tensor, ""] | dict[str, Tensor]:
        """Compute the loss of a batch of pairs.

        Args:
            image_features: embeddings of images, of length 1.
            text_features: embeddings of their texts, in the same order, of length 1.
            logit_scale: factor of the similarities, 1 / temperature. Differentiated.
            logit_bias: the model's, if it has one; it cancels in the softmax.
            output_dict: whether to return ``{"contrastive_loss": value}``.
            **known: what is known of the pairs, as in
                :meth:`~bayescl.losses.ContrastiveLoss.in_batch`: ``groups`` (of equal captions, see
                :func:`caption_groups`), ``domains``, ``labels`` and ``margin``.
        """
        self.loss.gather = self.world_size > 1 and distributed.is_initialized()
        value: Tensor = self.loss.in_batch(
            image_features,
            text_features,
            both_directions=True,
            temperature=1 / logit_scale,
            **known,
        )
        if logit_bias is not None:
            value = value + 0 * logit_bias.sum()  # a zero gradient, as a softmax gives it
        return {"contrastive_loss": value} if output_dict else value


def caption_groups(texts: Int[Tensor, "batch length"]) -> Int[Tensor, " batch"]:
    """Return one integer per caption, equal for captions with equal tokens.

    Args:
        texts: output of open_clip's tokenizer.

    Example:
        >>> groups = caption_groups(torch.tensor([[1, 5, 2], [1, 6, 2], [1, 5, 2]]))
        >>> (groups[:, None] == groups).int()
        tensor([[1, 0, 1],
                [0, 1, 0],
                [1, 0, 1]], dtype=torch.int32)
    """
    return text_keys({"input_ids": texts})
