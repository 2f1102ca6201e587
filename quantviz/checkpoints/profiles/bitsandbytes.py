"""bitsandbytes, as Transformers uses it.

Source: transformers, integrations/bitsandbytes.py: `_replace_with_bnb_linear` takes every nn.Linear and
Conv1D, and `get_keys_to_not_convert` leaves out the head and the weights tied to it.
"""

from __future__ import annotations

from types import MappingProxyType

from quantviz.checkpoints.profiles.files import SAFETENSORS_ENTRY, Files, Parts
from quantviz.checkpoints.profiles.profile import Profile

BITSANDBYTES = Profile(
    id="bitsandbytes",
    name="bitsandbytes",
    kinds=frozenset(("linear", "router")),
    recipes=("bnb_int8", "nf4_64", "fp4_64"),
    files=Files(
        ".safetensors",
        entry=SAFETENSORS_ENTRY,
        # The 16 values of the data type, and sizes and dtypes as JSON of about 80 bytes; of int8 a number for
        # the order of the codes.
        parts=MappingProxyType(
            {
                "bnb_int8": Parts(3, of_tensor=1),
                **dict.fromkeys(("nf4_64", "fp4_64"), Parts(4, of_tensor=144)),
            }
        ),
    ),
)
