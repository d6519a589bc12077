"""Latent classes one row and one component at a time, in float64, from the formulas."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import torch
from torch import Tensor
from torch.nn.functional import normalize

Rows = list[list[float]]


def dot(first: list[float], second: list[float]) -> float:
    return sum(a * b for a, b in zip(first, second, strict=True))


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
    sums, counts = [0 * direction for direction in directions], [0.0 for _ in directions]
    for row in rows:
        for component, share in enumerate(responsibility(row, directions, weights, kappa)):
            sums[component] = sums[component] + share * row / row.square().sum().sqrt()
            counts[component] += share
    lengths = [total.square().sum().sqrt() for total in sums]
    mean, dim = float(sum(lengths)) / len(rows), len(rows[0])
    kappa = min(largest, mean * (dim - mean**2) / (1 - mean**2))
    directions = [total / length for total, length in zip(sums, lengths, strict=True)]
    return directions, [count / len(rows) for count in counts], kappa


def agreement(first: Rows, second: Rows) -> float:
    items = len(first)
    pairs = list(zip(first, second, strict=True))
    same = sum(dot(*pair) for pair in pairs) / items
    confidence = sum(dot(a, a) + dot(b, b) for a, b in pairs) / (2 * items)
    chance = sum(dot(a, b) for a, b in product(first, second)) / items**2
    return (same - chance) / (confidence - chance)


def transitions(first: Rows, second: Rows) -> Rows:
    size = len(first[0])
    moved = [[0.0] * size for _ in range(size)]
    for view_1, view_2 in zip(first, second, strict=True):
        for c, k in product(range(size), range(size)):
            moved[c][k] += view_1[c] * view_2[k] + view_2[c] * view_1[k]
    return [[value / sum(row) for value in row] for row in moved]


def alignment(mixtures: list[Rows]) -> list[float]:
    """Of the matrices of inner products of all pairs of items, centred."""
    kernels = []
    for items in mixtures:
        means = [sum(column) / len(items) for column in zip(*items, strict=True)]
        centred = [[a - m for a, m in zip(item, means, strict=True)] for item in items]
        kernels.append([dot(*pair) for pair in product(centred, centred)])
    result = []
    for i, kernel in enumerate(kernels):
        others = kernels[:i] + kernels[i + 1 :]
        norm = dot(kernel, kernel)
        cosines = [dot(kernel, other) / math.sqrt(norm * dot(other, other)) for other in others]
        result.append(sum(cosines) / len(others))
    return result


def posterior(first: Tensor, second: Tensor, moves: Sequence[Tensor]) -> Tensor:
    """That rows and columns are of one class, from the responsibilities of each."""
    sizes = [len(of_mixture) for of_mixture in moves]
    ends = torch.block_diag(*(of_mixture @ of_mixture for of_mixture in moves))
    left, right = ((rows @ ends).split(sizes, dim=1) for rows in (first, second))
    cosines = [normalize(a) @ normalize(b).T for a, b in zip(left, right, strict=True)]
    return sum(cosines) / len(sizes)


def same_class(first: list[float], second: list[float], moves: Rows) -> float:
    columns = [list(column) for column in zip(*moves, strict=True)]
    for _ in range(2):
        first, second = ([dot(row, column) for column in columns] for row in (first, second))
    return dot(first, second) / math.sqrt(dot(first, first) * dot(second, second))
