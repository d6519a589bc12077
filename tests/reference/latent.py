"""Latent classes one row and one component at a time, in float64, from the formulas."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def responsibility(
    row: Tensor, directions: list[Tensor], weights: list[float], kappa: float
) -> list[float]:
    scores = []
    for direction, weight in zip(directions, weights, strict=True):
        cosine = float((row * direction).sum() / row.square().sum().sqrt())
        scores.append(weight * math.exp(kappa * cosine))
    return [score / sum(scores) for score in scores]


def em_step(
    rows: list[Tensor], directions: list[Tensor], weights: list[float], kappa: float, largest: float
) -> tuple[list[Tensor], list[float], float]:
    dim = len(rows[0])
    sums = [torch.zeros(dim, dtype=torch.float64) for _ in directions]
    counts = [0.0 for _ in directions]
    for row in rows:
        shares = responsibility(row, directions, weights, kappa)
        unit = row / row.square().sum().sqrt()
        for component, share in enumerate(shares):
            sums[component] = sums[component] + share * unit
            counts[component] += share
    lengths = [float(total.square().sum().sqrt()) for total in sums]
    mean = sum(lengths) / len(rows)
    kappa = min(largest, mean * (dim - mean**2) / (1 - mean**2))
    return (
        [total / length for total, length in zip(sums, lengths, strict=True)],
        [count / len(rows) for count in counts],
        kappa,
    )


def agreement(first: list[list[float]], second: list[list[float]]) -> float:
    items, components = len(first), len(first[0])
    same = confidence = chance = 0.0
    for i in range(items):
        for c in range(components):
            same += first[i][c] * second[i][c] / items
            confidence += (first[i][c] ** 2 + second[i][c] ** 2) / (2 * items)
            for j in range(items):
                chance += first[i][c] * second[j][c] / items**2
    return (same - chance) / (confidence - chance)


def transitions(first: list[list[float]], second: list[list[float]]) -> list[list[float]]:
    size = len(first[0])
    moved = [[0.0] * size for _ in range(size)]
    for one, other in zip(first, second, strict=True):
        for c in range(size):
            for k in range(size):
                moved[c][k] += one[c] * other[k] + other[c] * one[k]
    return [[value / sum(row) for value in row] for row in moved]


def alignment(mixtures: list[list[list[float]]]) -> list[float]:
    """Of the matrices of inner products of all pairs of items, centred."""

    def kernel(items: list[list[float]]) -> list[list[float]]:
        count = len(items)
        means = [sum(column) / count for column in zip(*items, strict=True)]
        centred = [[a - m for a, m in zip(item, means, strict=True)] for item in items]
        return [
            [sum(a * b for a, b in zip(one, other, strict=True)) for other in centred]
            for one in centred
        ]

    def inner(first: list[list[float]], second: list[list[float]]) -> float:
        rows = zip(first, second, strict=True)
        return sum(a * b for one, other in rows for a, b in zip(one, other, strict=True))

    kernels = [kernel(items) for items in mixtures]
    result = []
    for i, one in enumerate(kernels):
        others = [
            inner(one, other) / math.sqrt(inner(one, one) * inner(other, other))
            for j, other in enumerate(kernels)
            if j != i
        ]
        result.append(sum(others) / len(others))
    return result


def same_class(first: list[float], second: list[float], moves: list[list[float]]) -> float:
    size = len(moves)
    for _ in range(2):
        first = [sum(first[c] * moves[c][k] for c in range(size)) for k in range(size)]
        second = [sum(second[c] * moves[c][k] for c in range(size)) for k in range(size)]
    common = sum(a * b for a, b in zip(first, second, strict=True))
    return common / math.sqrt(sum(a * a for a in first) * sum(b * b for b in second))
