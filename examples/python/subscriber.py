"""Adds up what comes with the tag 42, until the publisher ends.

    python examples/python/subscriber.py tcp://127.0.0.1:7100
"""

import sys

import numpy

from forebay.net import Subscriber

rows = total = 0
with Subscriber(sys.argv[1], tags=[42]) as subscriber:
    for batch in subscriber:
        samples = batch.data.view(numpy.uint16).reshape(len(batch), 32)
        rows += len(samples)
        total += int(samples[:, 0].sum())
summary = subscriber.summary
print(f"{rows} rows, sum {total}, {summary['dropped']} lost by name, residual {summary['residual_items']}")
