"""The rules of the house that a program can check: layers, imports, text, documentation."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import datacursor

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "datacursor"

# A module imports only from layers above its own.
PYTHON_LAYERS = (
    {"errors"},
    {"_core"},
    {"_cursor_parts", "_cursor_text", "checks", "durable", "fork_lock", "forked_children"}
    | {"mapped_file"},
    {"file_lock", "slot_pool"},
    {"cursor", "document_source", "order", "plan_file", "row_block", "row_index", "shards"},
    {"block_shuffle", "mixture", "subset", "weighted"},
    {"choose_order"},
    {"arrow", "contributions", "dataset_folder", "datasets", "datatrove", "fingerprint", "flat"}
    | {"megatron", "outcome", "row_counts", "skip_table", "source_reader", "state"},
    {"document_stream", "layout", "matching", "moves", "parquet", "plan_digest", "row_estimate"}
    | {"given_lengths", "saved_plan"},
    {"corpus_files", "moving", "row_plan", "session", "source_stream", "window_table"},
    {"best_fit_plan", "chunk_plan", "concat_plan"},
    {"packing_options"},
    {"commits"},
    {"agreement", "issuing", "updates"},
    {"committing"},
    {"pieces"},
    {"corpus_folder"},
    {"corpus_writer"},
    {"corpus_build"},
    {"encoders", "parquet_texts", "remote"},
    {"texts"},
    {"conversion"},
    {"corpus_cache", "text_corpus"},
    {"block_mask", "plan", "row_buffers", "row_format", "sampler", "shared_batch", "tokens"},
    {"source_plan", "token_column"},
    {"row_contributions", "row_fields"},
    {"shared_slots"},
    {"rows"},
    {"source_rows"},
    {"in_process", "packing", "rng", "worker_streams"},
    {"worker_slots"},
    {"instrument", "loader", "sample_seeded"},
    {"ledger"},
    {"ledger.rows"},
    {"ledger.identity", "ledger.parts"},
    {"ledger.files"},
    {"ledger.history", "ledger.replay"},
    {"ledger.compact", "ledger.verify", "ledger.writer"},
    {"recovery.allowance", "recovery.claim", "recovery.determinism", "recovery.digest"}
    | {"recovery.form", "recovery.generators", "recovery.plain", "recovery.refusal"},
    {"recovery.hashed_file", "recovery.ranks", "recovery.run_directory", "recovery.tensor_tree"},
    {"recovery.manifest"},
    {"recovery.checkpoint"},
    {"recovery.sharded"},
    {"recovery.association", "recovery.completeness", "recovery.extras", "recovery.loop"}
    | {"recovery.naming", "recovery.options", "recovery.scaling", "recovery.schema"}
    | {"recovery.streams"},
    {"recovery.gradients", "recovery.modules", "recovery.optimizer", "recovery.protect"}
    | {"recovery.schedule"},
    {"recovery.position"},
    {"recovery.state"},
    {"recovery.aspects"},
    {"recovery.trace"},
    {"recovery"},
    {"verify"},
    {"verify.log"},
    {"verify.compare", "verify.launch"},
    {"verify.verdict"},
    {"verify.damage", "verify.harness"},
    {"verify.picture", "verify.selftest"},
    {"plots"},
    {"demo"},
    {"demo.corpus", "demo.model", "demo.parameters", "demo.records", "demo.settings"},
    {"demo.launch", "demo.picture", "demo.train", "demo.verdict"},
    {"demo.story"},
    {"demo.__main__"},
    {"cli.output"},
    {"cli.progress"},
    {"cli.convert"},
    {"cli.tokenize"},
    {"cli.find"},
    {"cli.diff", "cli.doctor", "cli.inspect", "cli.instrument", "cli.items"}
    | {"cli.ledger", "cli.verify_restart"},
    {"cli"},
    {"__main__"},
)
# Every other module imports with numpy alone.
NEED_TORCH = (
    {
        "agreement",
        "block_mask",
        "committing",
        "datasets",
        "in_process",
        "issuing",
        "layout",
        "loader",
        "packing",
        "row_buffers",
        "row_fields",
        "row_format",
        "rows",
        "sample_seeded",
        "sampler",
        "shared_batch",
        "shared_slots",
        "source_rows",
        "token_column",
    }
    | {"state", "updates", "worker_slots", "worker_streams"}
    | {f"demo.{name}" for name in ("__main__", "model", "parameters", "story", "train")}
    | {"recovery.checkpoint", "recovery.ranks", "recovery.sharded", "recovery.tensor_tree"}
    | {"recovery.aspects", "recovery.trace"}
    | {f"verify.{name}" for name in ("compare", "damage", "harness", "launch", "log")}
    | {f"verify.{name}" for name in ("picture", "selftest", "verdict")}
    | {f"recovery.{name}" for name in ("digest", "extras", "generators", "gradients", "modules")}
    | {f"recovery.{name}" for name in ("naming", "optimizer", "options", "plain", "position")}
    | {f"recovery.{name}" for name in ("protect", "schedule", "schema", "state", "streams")}
)
NEED_PYARROW = {"arrow", "demo.corpus", "parquet"} | {"conversion", "corpus_build", "corpus_cache"}
NEED_PYARROW |= {"corpus_writer", "parquet_texts", "text_corpus"} | {
    f"ledger.{name}" for name in ("compact", "files", "history", "parts", "verify", "writer")
}
NEED_MORE_THAN_NUMPY = NEED_TORCH | NEED_PYARROW | {"demo.picture", "plots"}

# The same for the core. A file belongs to the noun that its name is or begins with:
# permutation_avx2.cpp is part of `permutation`.
CPP_LAYERS = (
    {"error"},
    {"bytes", "kernel", "mixer", "philox", "prefetch"},
    {"cursor", "digest", "last_used", "length_index", "permutation", "room_index"},
    {"best_fit", "chunk", "gather", "mixture_stages", "order", "packer"},
    {"packer_pool"},
    {"block_shuffle", "mixture", "subset", "weighted"},
)
# The core knows no Python, files or clock, and draws no random number but its own.
FORBIDDEN_INCLUDES = re.compile(
    r"pybind11/|numpy/|Python\.h|fstream|filesystem|iostream|chrono|ctime|random"
)

LINE_LIMIT = 400
# accelerate finds these keys in a state and subtracts from them.
FORBIDDEN_KEYS = re.compile(r"samples_yielded|_num_yielded|_sampler_iter_yielded")
BROAD_EXCEPTIONS = {"BaseException", "Exception"}

IMPORT_WITHOUT_OPTIONAL_PACKAGES = """
import importlib, sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"pyarrow", "torch"}:
            raise ModuleNotFoundError(f"{name} was imported", name=name)

sys.meta_path.insert(0, Refuse())
for name in sys.argv[1:]:
    importlib.import_module(name)
"""


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def modules() -> dict[str, Path]:
    """Every module of the package but its front door, by name below `datacursor`."""
    paths = sorted(PACKAGE.rglob("*.py"))
    names = [path.relative_to(PACKAGE).with_suffix("").as_posix() for path in paths]
    names = [name.replace("/", ".").removesuffix("__init__").rstrip(".") for name in names]
    return {name: path for name, path in zip(names, paths, strict=True) if name}


def sources(*folders: str) -> list[Path]:
    return sorted(
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".cpp", ".hpp", ".py", ".pyi"} or path.name == "CMakeLists.txt"
    )


def lower_layers(name: str, layers: tuple[set[str], ...]) -> set[str]:
    number = next((n for n, names in enumerate(layers) if name in names), len(layers))
    return {name for names in layers[:number] for name in names}


def imported_modules(path: Path) -> Iterator[str]:
    """The modules of the package that a file imports, at any depth; "" is the front door."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "datacursor":
            names = [
                f"datacursor.{alias.name}" if is_module(alias.name) else "datacursor"
                for alias in node.names
            ]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            continue
        for name in names:
            top, _, rest = name.partition(".")
            if top == "datacursor":
                yield rest


def is_module(name: str) -> bool:
    return any((PACKAGE / name).with_suffix(suffix).exists() for suffix in (".py", ".pyi", ""))


def noun_of(path: str) -> str:
    stem = Path(path).stem
    nouns = [noun for layer in CPP_LAYERS for noun in layer]
    return max((n for n in nouns if stem == n or stem.startswith(f"{n}_")), key=len, default=stem)


def includes(path: Path) -> list[tuple[str, bool]]:
    """What a C++ file includes, and whether in quotes, so from this project."""
    found = re.findall(r'^\s*#\s*include\s*([<"])([^>"]+)', path.read_text("utf-8"), re.MULTILINE)
    return [(name, bracket == '"') for bracket, name in found]


CORE_FILES = sources("cpp/include", "cpp/src")


def test_every_module_has_a_layer() -> None:
    assert set(modules()) <= set.union(*PYTHON_LAYERS)


@pytest.mark.parametrize("name", modules())
def test_a_module_imports_only_from_lower_layers(name: str) -> None:
    assert set(imported_modules(modules()[name])) <= lower_layers(name, PYTHON_LAYERS)


@pytest.mark.parametrize("name", ["", *sorted(set(modules()) - NEED_MORE_THAN_NUMPY)])
def test_import_needs_neither_torch_nor_pyarrow(name: str) -> None:
    module = f"datacursor.{name}".rstrip(".")
    command = [sys.executable, "-c", IMPORT_WITHOUT_OPTIONAL_PACKAGES, module]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", datacursor.__all__)
def test_a_public_name_has_a_docstring(name: str) -> None:
    pytest.importorskip("pyarrow")
    pytest.importorskip("torch")
    value = getattr(datacursor, name)
    if callable(value):
        assert value.__doc__


def test_every_core_file_has_a_layer() -> None:
    assert {noun_of(path.name) for path in CORE_FILES} <= set.union(*CPP_LAYERS)


@pytest.mark.parametrize("path", CORE_FILES, ids=relative)
def test_a_core_file_includes_only_from_lower_layers(path: Path) -> None:
    noun = noun_of(path.name)
    allowed = {noun} | lower_layers(noun, CPP_LAYERS)
    assert {noun_of(name) for name, ours in includes(path) if ours} <= allowed


@pytest.mark.parametrize("path", CORE_FILES, ids=relative)
def test_a_core_file_knows_no_python_file_or_clock(path: Path) -> None:
    assert [name for name, _ in includes(path) if FORBIDDEN_INCLUDES.match(name)] == []


@pytest.mark.parametrize("path", sources("cpp", "src"), ids=relative)
def test_a_file_is_short_enough_to_read(path: Path) -> None:
    num_lines = path.read_text("utf-8").count("\n")
    assert num_lines <= LINE_LIMIT


@pytest.mark.parametrize("path", sources("benchmarks", "cpp", "src", "tests"), ids=relative)
def test_a_source_is_ascii_without_tabs(path: Path) -> None:
    text = path.read_text("utf-8")
    assert [line for line in text.splitlines() if not line.isascii() or "\t" in line] == []


@pytest.mark.parametrize("path", modules().values(), ids=relative)
def test_no_state_key_that_accelerate_rewrites(path: Path) -> None:
    assert FORBIDDEN_KEYS.findall(path.read_text("utf-8")) == []


@pytest.mark.parametrize("path", modules().values(), ids=relative)
def test_no_exception_is_caught_broadly(path: Path) -> None:
    broad = [
        handler.lineno
        for handler in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(handler, ast.ExceptHandler) and catches_everything(handler)
    ]
    assert broad == []


def catches_everything(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    names = {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)}
    return bool(names & BROAD_EXCEPTIONS)
