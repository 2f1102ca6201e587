"""bitsandbytes, as Transformers uses it.

Source: transformers, integrations/bitsandbytes.py: `_replace_with_bnb_linear` takes every nn.Linear and
Conv1D, and `get_keys_to_not_convert` leaves out the head and what is tied to it.
"""

from __future__ import annotations

from quantviz.checkpoints.profiles.profile import Profile

BITSANDBYTES = Profile(
    id="bitsandbytes",
    name="bitsandbytes",
    kinds=frozenset(("linear", "router")),
    recipes=("bnb_int8", "nf4_64", "fp4_64"),
)
