"""Files at an address that the user gives: on a web server or an object store, read by byte ranges."""
