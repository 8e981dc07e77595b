"""The commit ledger: what entered every update of a run, in Arrow files that prove themselves.

    rows     one row: its fields, its bytes, its place in the chain
    parts    rows as Arrow and Parquet bytes, and back
    files    the directory: names, attempts, pieces of rows
    history  all attempts read back, and which rows lived
    verify   the history against itself, the order and a checkpoint
    writer   `Ledger`, which a sampler tells of its commits
    compact  many small files made one

docs/ledger.md describes the format.
"""
