"""What colours look like, for tests of contrast and saturation."""


def channels(colour):
    """Red, green and blue of "#rrggbb", from 0 to 1."""
    return [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]


def luminance(colour):
    """The relative luminance that WCAG's contrast is computed from."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels(colour)]
    return sum(share * c for share, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
