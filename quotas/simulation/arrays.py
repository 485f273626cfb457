"""Names for the arrays that calibration and fast replay pass around."""

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def whole_numbers(values: object) -> Ints:
    return np.asarray(values, dtype=np.int64)
