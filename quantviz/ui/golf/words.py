"""Numbers of the game as a person reads them."""

from __future__ import annotations

from quantviz.teaching.golf import DECIMALS


def bits_words(bits: float) -> str:
    """Return the bits a weight as text, with enough digits to show an excess over the budget.

    >>> bits_words(4.5), bits_words(4.50048828125)
    ('4.5', '4.5005')
    """
    return f"{bits:.4f}".rstrip("0").rstrip(".")


def db_words(db: float) -> str:
    """Return an SQNR in dB.

    >>> db_words(21.3)
    '21.30'
    """
    return f"{db:.{DECIMALS}f}"


def score_words(gain: float) -> str:
    """Return the score of a try that is better than par by `gain` dB: as in golf, less is better.

    >>> score_words(0.5), score_words(-1.25), score_words(0.0)
    ('−0.50', '+1.25', '0.00')
    """
    return f"{-gain:+.{DECIMALS}f}".replace("-", "−") if gain else f"{0:.{DECIMALS}f}"
