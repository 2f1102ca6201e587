"""What leaves the app: Python, arrays, tables, file names."""
