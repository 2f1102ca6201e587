"""The five course notebooks' functions under their own names: `from quantviz.course import *`."""

from quantviz.teaching.course import *  # noqa: F403
from quantviz.teaching.course import __all__ as __all__
