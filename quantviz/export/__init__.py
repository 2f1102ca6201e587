"""Exports of the app: Python, arrays, tables, a cell in words, file names."""
