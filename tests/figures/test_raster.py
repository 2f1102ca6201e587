"""Panels as images: any range that a link can ask for has colours."""

import numpy as np
import pytest

from quantviz.figures.raster import _indices


@pytest.mark.parametrize("end", [1e-45, 1e-38, 1e-3, 1.0, 1e38, 3e38, 1e300])
def test_any_range_has_colours(end):
    values = np.array([[-3e38, -1.0, 0.0, 1.0, 3e38, np.nan]], dtype=np.float32)
    shades = _indices(values, -end, end)[0]
    assert shades[2] == 127
    assert shades[5] == 255
    assert list(shades[:5]) == sorted(shades[:5])
    if end <= 1:
        assert shades[0] == shades[1] == 0
        assert shades[3] == shades[4] == 254
