"""Are the orders as good as true shuffles? Statistics, sizes, a verdict, and orders that must fail.

`python -m quality` prints a run; docs/quality.md says what it means.
"""
