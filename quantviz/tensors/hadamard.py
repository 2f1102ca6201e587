"""Hadamard matrices: entries ±1, whose rows are orthogonal to each other.

Sylvester's have 2^k rows; Paley's q + 1 or 2(q + 1) for a prime q, of its quadratic residues: 12, 20, 28 …;
Williamson's 4n, of four symmetric circulants of order n: 92 and 172, where Paley has none. Larger ones are
products: K·2^k rows.
"""

from __future__ import annotations

import math
from functools import cache

import torch

from quantviz.errors import QuantVizError

#: A product with K rows costs K additions a value.
_TRIED_UP_TO = 256
#: Places up to n / 2 of −1 in the first rows of Williamson's four circulants, by n (J. Williamson 1944,
#: "Hadamard's determinant theorem and the sum of four squares"; 23 by Baumert, Golomb and Hall, 1962).
_WILLIAMSON = {
    23: ((5, 8, 9, 10), (1, 5, 6, 9, 11), (1, 3, 4, 10, 11), (1, 2, 5, 7, 9, 10, 11)),
    43: (
        (5, 8, 9, 10, 11, 13, 16, 17, 20),
        (3, 4, 5, 8, 9, 11, 13, 15, 18, 19, 20, 21),
        (2, 4, 9, 11, 12, 14, 15, 19, 20),
        (1, 4, 5, 6, 7, 8, 13, 15, 19),
    ),
}


def hadamard(order: int) -> torch.Tensor:
    """Return a Hadamard matrix, float64 (order, order), with HHᵀ = order · I.

    One of many of its order: the Kronecker product of `base_matrix` and Sylvester's of 2^k.

    Raises:
        QuantVizError: No such matrix is made here.

    >>> hadamard(2).tolist()
    [[1.0, 1.0], [1.0, -1.0]]
    >>> h = hadamard(36)
    >>> torch.equal(h @ h.T, 36 * torch.eye(36, dtype=torch.float64)), h.abs().unique().tolist()
    (True, [1.0])
    """
    factor = base_factor(order)
    if factor is None:
        raise QuantVizError("method.rotation.order", got=order, block=largest_block(order))
    return _product(base_matrix(factor), _PAIR, order)


@cache
def regular_hadamard(order: int) -> torch.Tensor:
    """Return the Hadamard matrix of a power of 4 whose rows have equal sums, float32 (order, order).

    >>> regular_hadamard(16).sum(1).unique().tolist()
    [4.0]
    """
    return _product(torch.ones(1, 1), 1 - 2 * torch.eye(4).flip(1), order)


def _product(matrix: torch.Tensor, factor: torch.Tensor, order: int) -> torch.Tensor:
    # As many factors as the order has.
    while len(matrix) < order:
        matrix = torch.kron(matrix, factor)
    return matrix


def has_hadamard(order: int) -> bool:
    """Return whether `hadamard` makes one of this order."""
    return base_factor(order) is not None


def largest_block(width: int) -> int:
    """Return the largest divisor of a width with a Hadamard matrix made here.

    >>> largest_block(384), largest_block(11008), largest_block(29 * 32), largest_block(15)
    (384, 11008, 32, 1)
    """
    return max(
        block
        for small in range(1, math.isqrt(width) + 1)
        if width % small == 0
        for block in (small, width // small)
        if has_hadamard(block)
    )


@cache
def base_factor(order: int) -> int | None:
    """Return the K of K·2^k = order: 1, or the smallest with a `base_matrix`; None if there is none."""
    if order < 1:
        return None
    odd = order // (order & -order)
    if odd == 1:
        return 1
    factor = 4 * odd
    while order % factor == 0 and factor <= _TRIED_UP_TO:
        if _is_prime(factor - 1) or _prime_of_second(factor) or factor // 4 in _WILLIAMSON:
            return factor
        factor *= 2
    return None


@cache
def base_matrix(order: int) -> torch.Tensor:
    """Return Paley's matrix of `order` rows, float64, or Williamson's; for 1 the matrix (1).

    With q = order − 1 a prime, q ≡ 3 mod 4, it is I + S, and S is skew: Sᵀ = −S.

    >>> s = base_matrix(12) - torch.eye(12, dtype=torch.float64)
    >>> torch.equal(s, -s.T)
    True
    """
    if order == 1:
        return torch.ones(1, 1, dtype=torch.float64)
    if _is_prime(order - 1):
        return torch.eye(order, dtype=torch.float64) + _bordered(order - 1, -1.0)
    prime = _prime_of_second(order)
    if prime is None:
        return _williamson(order // 4)
    conference = _bordered(prime, 1.0)
    on_diagonal = torch.tensor([[1.0, -1.0], [-1.0, -1.0]], dtype=torch.float64)
    return torch.kron(conference, _PAIR) + torch.kron(torch.eye(prime + 1, dtype=torch.float64), on_diagonal)


def is_skew(factor: int) -> bool:
    """Return whether `base_matrix` of this order is I + S with S skew: cos φ I + sin φ S/√q is a rotation.

    >>> [factor for factor in (12, 20, 28, 36, 44) if is_skew(factor)]
    [12, 20, 44]
    """
    return factor == 1 or _is_prime(factor - 1)


def _bordered(prime: int, sign: float) -> torch.Tensor:
    """Return Jacobsthal's matrix χ(i − j) of a prime, bordered by 1 and `sign`: 1 symmetric, −1 skew."""
    residues = {i * i % prime for i in range(1, prime)}
    character = torch.tensor([0.0, *(1.0 if i in residues else -1.0 for i in range(1, prime))])
    places = torch.arange(prime)
    matrix = torch.zeros(prime + 1, prime + 1, dtype=torch.float64)
    matrix[0, 1:] = 1.0
    matrix[1:, 0] = sign
    matrix[1:, 1:] = character[(places[:, None] - places[None, :]) % prime]
    return matrix


def _williamson(order: int) -> torch.Tensor:
    places = torch.arange(order)
    apart = (places[:, None] - places[None, :]) % order
    a, b, c, d = (_signs(order, negative)[apart] for negative in _WILLIAMSON[order])
    rows = ((a, b, c, d), (-b, a, -d, c), (-c, d, a, -b), (-d, -c, b, a))
    return torch.cat([torch.cat(row, 1) for row in rows])


def _signs(order: int, negative: tuple[int, ...]) -> torch.Tensor:
    signs = torch.ones(order, dtype=torch.float64)
    for place in negative:
        signs[[place, order - place]] = -1.0
    return signs


def _prime_of_second(order: int) -> int | None:
    # q ≡ 1 mod 4 with 2(q + 1) = order: Paley's second construction.
    prime = order // 2 - 1
    return prime if order % 4 == 0 and prime % 4 == 1 and _is_prime(prime) else None


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % i for i in range(2, math.isqrt(number) + 1))


_PAIR = torch.tensor([[1.0, 1.0], [1.0, -1.0]], dtype=torch.float64)
