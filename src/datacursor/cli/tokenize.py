"""`datacursor tokenize`: texts turned into a token corpus."""

from __future__ import annotations

import argparse

from datacursor.cli.convert import print_built
from datacursor.cli.output import Commands, add_json
from datacursor.cli.progress import shown_progress


def add_tokenize(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "tokenize",
        help="turn texts into a token corpus",
        description="Turn text files, JSON lines or a text column of Parquet into a folder of "
        "mapped Arrow files. Killed and started again, it goes on.",
    )
    parser.add_argument("source", nargs="+", metavar="SOURCE", help="files or directories")
    parser.add_argument("target", metavar="TARGET", help="the folder to make")
    parser.add_argument(
        "--tokenizer",
        required=True,
        metavar="bytes|FILE",
        help="a token for each byte of UTF-8, or a tokenizer.json (needs tokenizers)",
    )
    parser.add_argument("--eos", type=int, metavar="ID", help="a token to put after each document")
    parser.add_argument("--column", default="text", help="field or column of the text")
    parser.add_argument("--format", help="text, jsonl or parquet; default: by the suffixes")
    parser.add_argument("--errors", default="strict", help="strict, or replace what is not UTF-8")
    parser.add_argument(
        "--add-special-tokens", action="store_true", help="let the tokenizer add its own"
    )
    add_json(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from datacursor.text_corpus import tokenize

    with shown_progress() as progress:
        built = tokenize(
            options.source,
            options.target,
            tokenizer=options.tokenizer,
            eos=options.eos,
            column=options.column,
            format=options.format,
            errors=options.errors,
            add_special_tokens=options.add_special_tokens,
            progress=progress,
        )
    print_built(built, as_json=options.json)
    return 0
