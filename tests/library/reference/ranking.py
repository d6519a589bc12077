"""Rankings and their figures as loops in float64, straight from the definitions."""

import math
from collections.abc import Sequence


def ranked_list(scores: Sequence[float], seen: set[int], k: int) -> list[int]:
    """The unseen items by score, those with equal scores by number."""
    unseen = [item for item in range(len(scores)) if item not in seen]
    return sorted(unseen, key=lambda item: (-scores[item], item))[:k]


def figures(ranking: Sequence[int], wanted: set[int], k: int) -> dict[str, float]:
    """Every figure of one user, of the first ``k`` places of a list."""
    hits = [item in wanted for item in ranking[:k]]
    places = [place for place, hit in enumerate(hits, start=1) if hit]
    dcg = sum(1 / math.log2(place + 1) for place in places)
    ideal = sum(1 / math.log2(place + 1) for place in range(1, min(k, len(wanted)) + 1))
    return {
        "precision": sum(hits) / k,
        "recall": sum(hits) / len(wanted),
        "ndcg": dcg / ideal,
    }
