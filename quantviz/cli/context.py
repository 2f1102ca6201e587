"""The parts of the command that its verbs share: exit statuses, and the chosen language."""

from __future__ import annotations

import click

from quantviz.text import DEFAULT_LANGUAGE

#: Exit statuses besides 0: finished with findings; a wrong use, or a file that cannot be opened; interrupted.
#: `quantviz.cli.output` has the one of a closed pipe.
FOUND = 1
UNUSABLE = 2
INTERRUPTED = 130

#: Key of the chosen language in Click's context.
LANGUAGE = "quantviz.language"


def language() -> str:
    """Return the language of sentences that the command was given, English where it was given none."""
    context = click.get_current_context(silent=True)
    chosen: str = context.meta.get(LANGUAGE, DEFAULT_LANGUAGE) if context else DEFAULT_LANGUAGE
    return chosen
