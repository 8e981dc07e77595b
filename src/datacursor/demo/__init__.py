"""`python -m datacursor.demo`: a training run is killed twice, and its logs say what was lost.

settings     what all runs have in common
corpus       Python's own sources as an Arrow file of byte tokens
train        the training program: one process of one run
model        what it trains
parameters   how its results are compared
records      what it logs
launch       starts it, kills it, waits for it
verdict      judges the logs: rows lost, rows doubled, the first difference
picture      turns the logs into the timeline of `datacursor.plots`
story        all of it in order
"""
