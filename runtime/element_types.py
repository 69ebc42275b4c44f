"""IREE's numbers for element types."""

import numpy as np
from iree.runtime.array_interop import map_dtype_to_element_type

from lemurc.errors import InternalError


def element_type(dtype: str) -> int:
    """IREE's number for a NumPy or ml_dtypes type."""
    found = map_dtype_to_element_type(np.dtype(dtype))
    if found is None:
        raise InternalError(f"IREE has no element type for {dtype}")
    return int(found)
