"""What several test modules use: none of them imports another one."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
