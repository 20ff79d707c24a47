"""What is known of bge-small-en-v1.5 without loading it."""

import os

NAME = "bge-small-en-v1.5"
MAX_TOKENS = 256  # drops 4% of a coding conversation; 192 would drop 14%
MODEL = f"{NAME}/{MAX_TOKENS}"
UNRELATED = 0.4  # the cosine of texts that have nothing in common
THREADS = min(2, os.cpu_count() or 1)  # for a backlog: it uses what other programs leave
