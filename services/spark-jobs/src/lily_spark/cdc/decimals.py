"""Connect's decimals in Spark SQL: base64 of the unscaled number, big-endian two's complement, of up to 16 bytes."""

from __future__ import annotations

#: Digits and their place in the 128 bits, most significant first: four words of 32 bits.
_WORDS = ((1, "79228162514264337593543950336"), (9, "18446744073709551616"), (17, "4294967296"), (25, "1"))


def text(base64: str, scale: str) -> str:
    """SQL of the decimal's digits, e.g. `-12.50`; null when it has more than 38 or cannot be read.

    `base64` and `scale` are SQL. The number is put together from words as a magnitude: a negative one is its bits
    turned over, and one more.
    """
    # Spark SQL has no `let`: a transform over an array of one names what is used again.
    bits = f"hex(try_to_binary({base64}, 'base64'))"
    negative = "left(h, 1) >= '8'"
    padded = f"lpad(h, 32, IF({negative}, 'F', '0'))"
    words = [f"CAST(conv(substring(p.h, {start}, 8), 16, 10) AS decimal(10,0))" for start, _ in _WORDS]
    turned = [f"IF(p.n, 4294967295 - {word}, {word})" for word in words]
    unsigned = _sum([_times(word, weight) for word, (_, weight) in zip(turned, _WORDS, strict=True)])
    magnitude = _sum([unsigned, "CAST(IF(p.n, 1, 0) AS decimal(38,0))"])
    digits = f"transform(array(struct({padded} AS h, {negative} AS n)), p -> struct(p.n AS n, CAST({magnitude} AS string) AS d))[0]"
    return _scaled(f"transform(array({bits}), h -> IF(length(h) BETWEEN 2 AND 32, {digits}, NULL))[0]", scale)


def _times(word: str, weight: str) -> str:
    return f"try_multiply(CAST({word} AS decimal(38,0)), CAST('{weight}' AS decimal(38,0)))"


def _sum(parts: list[str]) -> str:
    total = parts[0]
    for part in parts[1:]:
        total = f"try_add({total}, {part})"
    return total


def _scaled(number: str, scale: str) -> str:
    """SQL of the digits with the point in its place; `number` is SQL of a struct (n: negative, d: digits)."""
    whole = f"lpad(q.d, greatest(length(q.d), {scale} + 1), '0')"
    point = f"IF({scale} > 0, concat(left({whole}, length({whole}) - {scale}), '.', right({whole}, {scale})), q.d)"
    return f"transform(array({number}), q -> IF(q.d IS NULL, NULL, concat(IF(q.n, '-', ''), {point})))[0]"
