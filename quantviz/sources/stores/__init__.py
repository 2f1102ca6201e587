"""Files at an address: on a web server or an object store, read by byte ranges where somebody names them."""
