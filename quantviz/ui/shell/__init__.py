"""The frame of every page: session, language, cache, turns, history, errors, private parts."""
