"""What every test shares: Hypothesis profiles and the tests that need an optional package."""

from __future__ import annotations

import importlib.util
import os

from hypothesis import settings

# Without torch (the supported Pythons are tested with numpy alone) these are left out.
NEEDS = {
    "torch": [
        "forked.py",
        "kill_loop.py",
        "packed.py",
        "ranks.py",
        "runs.py",
        "save_loop.py",
        "test_agreement.py",
        "test_best_fit_resume.py",
        "test_block_mask.py",
        "test_checkpoint.py",
        "test_checkpoint_crash.py",
        "test_checkpoint_kills.py",
        "test_demo.py",
        "test_determinism.py",
        "test_digest.py",
        "test_document_source.py",
        "test_documents.py",
        "test_examples.py",
        "test_kills.py",
        "test_in_process.py",
        "test_ledger_sampler.py",
        "test_loader.py",
        "test_loop_state.py",
        "test_optimizer_state.py",
        "test_own_order.py",
        "test_packing.py",
        "test_packing_orders.py",
        "test_packing_plans.py",
        "test_protect.py",
        "test_refusals.py",
        "test_row_buffers.py",
        "test_row_format.py",
        "test_rows.py",
        "test_sample_seeded.py",
        "test_sampler.py",
        "test_sampler_laws.py",
        "test_sampler_orders.py",
        "test_scenarios.py",
        "test_schedule.py",
        "test_sharded.py",
        "test_shared_batch.py",
        "test_shared_slots.py",
        "test_streams.py",
        "test_token_column.py",
        "test_trace.py",
        "test_training_state.py",
        "test_updates.py",
        "test_verify_compare.py",
        "test_verify_harness.py",
        "test_verify_restart.py",
        "test_worker_streams.py",
        "training.py",
    ],
    "pyarrow": [
        "attacks",
        "ledger_runs.py",
        "test_conversion.py",
        "test_corpus_cache.py",
        "test_corpus_files.py",
        "test_dataset_folder.py",
        "test_demo.py",
        "test_ledger.py",
        "test_ledger_crash.py",
        "test_ledger_history.py",
        "test_ledger_verify.py",
        "test_parquet.py",
        "test_remote.py",
        "test_tokenize.py",
        "test_tokens.py",
    ],
    "matplotlib": ["test_plots.py", "quality/picture.py"],
    "scipy": ["quality"],
    "datasets": ["peers/test_datasets_writer.py"],
    "datatrove": ["peers/test_datatrove_writer.py"],
    "megatron": ["peers/test_megatron_writer.py"],
    "tokenizers": ["peers/test_tokenizers_files.py"],
    "transformers": ["peers/test_transformers_batches.py"],
}
collect_ignore = [
    name
    for package, names in NEEDS.items()
    if importlib.util.find_spec(package) is None
    for name in names
]

# A loaded machine is not a defect, so no example has a deadline.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")
