"""The live parts of a page: the data for the browser's scripts, and a page that works without a server."""
