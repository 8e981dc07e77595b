"""`datacursor convert`: a corpus rewritten as mapped files."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from datacursor.cli.output import Commands, add_json, print_json, print_pairs
from datacursor.cli.progress import shown_progress

if TYPE_CHECKING:
    from datacursor.corpus_build import BuiltCorpus


def add_convert(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "convert",
        help="rewrite a token corpus as mapped files",
        description="Rewrite a corpus of any format as a folder of mapped Arrow files, and "
        "compare every token. Killed and started again, it goes on; if the target is there "
        "already, it is compared again.",
    )
    parser.add_argument("source", nargs="+", metavar="SOURCE", help="files, directories, URLs")
    parser.add_argument("target", metavar="TARGET", help="the folder to make")
    parser.add_argument("--column", help="the token column of Arrow and Parquet")
    parser.add_argument("--format", help="of the source, where it cannot be told")
    parser.add_argument("--dtype", help="of a source without header: uint16 or uint32")
    parser.add_argument("--eot", type=int, help="the token between documents of a flat source")
    parser.add_argument("--eot-at", help="where a document has it: end or start")
    parser.add_argument("--cache-dir", metavar="DIR", help="where URLs are downloaded to")
    add_json(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from datacursor.conversion import convert

    with shown_progress() as progress:
        built = convert(
            options.source,
            options.target,
            column=options.column,
            format=options.format,
            dtype=options.dtype,
            eot=options.eot,
            eot_at=options.eot_at,
            cache_dir=options.cache_dir,
            progress=progress,
        )
    print_built(built, as_json=options.json)
    return 0


def print_built(built: BuiltCorpus, *, as_json: bool) -> None:
    """Print what a folder holds."""
    facts = {
        "path": str(built.path),
        "documents": built.num_documents,
        "null_documents": built.num_null,
        "tokens": built.num_tokens,
        "dtype": built.dtype,
        "files": built.num_files,
        "bytes": built.num_bytes,
        "found_documents": built.num_found,
        "fingerprint": built.fingerprint.hex(),
    }
    if as_json:
        print_json(facts)
    else:
        print_pairs(facts)
