// The best-fit packer and the keys of chunk: checks, GIL, calls to the core.
#include "datacursor/best_fit.hpp"

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "bindings.hpp"
#include "buffers.hpp"
#include "datacursor/chunk.hpp"
#include "datacursor/packer_pool.hpp"
#include "owning_length_index.hpp"

namespace py = pybind11;

namespace datacursor::bindings {
namespace {

using Key = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;  // seed, epoch, window

LongDocuments long_documents_of(const std::string& name) {
    static const std::map<std::string, LongDocuments> names{
        {"split", LongDocuments::kSplit},
        {"truncate", LongDocuments::kTruncate},
        {"drop", LongDocuments::kDrop},
        {"error", LongDocuments::kError},
    };
    const auto found = names.find(name);
    if (found == names.end()) {
        throw_argument("long_documents must be 'split', 'truncate', 'drop' or 'error', got '" +
                       name + "'");
    }
    return found->second;
}

py::dict to_dict(const BestFitCounts& counts) {
    py::dict fields;
    fields["num_rows"] = counts.num_rows;
    fields["num_spans"] = counts.num_spans;
    fields["num_tokens"] = counts.num_tokens;
    fields["sum_squares"] = counts.sum_squares;
    fields["num_empty"] = counts.num_empty;
    fields["num_split"] = counts.num_split;
    fields["num_truncated"] = counts.num_truncated;
    fields["num_dropped"] = counts.num_dropped;
    fields["num_fragments_dropped"] = counts.num_fragments_dropped;
    fields["num_tokens_dropped"] = counts.num_tokens_dropped;
    return fields;
}

// What the functions below share: packs one window without the GIL, which guards the pool.
BestFitCounts pack(BestFitPacker& packer, const OwningLengthIndex& owner,
                   const py::array& documents, const LengthRule& lengths) {
    const auto documents_span = readable_1d<std::int64_t>(documents, "documents");
    const py::gil_scoped_release release;
    return packer.pack(owner.index, lengths, documents_span);
}

py::dict count_best_fit(const OwningLengthIndex& owner, const py::array& documents,
                        PackerPool& pool, std::int64_t num_virtual, bool keep_empty) {
    std::unique_ptr<BestFitPacker> packer = pool.take();
    const BestFitCounts counts =
        pack(*packer, owner, documents, LengthRule(num_virtual, keep_empty));
    pool.give_back(std::move(packer));
    return to_dict(counts);
}

py::tuple best_fit(const OwningLengthIndex& owner, const py::array& documents, PackerPool& pool,
                   std::int64_t num_virtual, bool keep_empty, const std::optional<Key>& key,
                   std::uint32_t cost_groups) {
    std::unique_ptr<BestFitPacker> packer = pool.take();
    const BestFitCounts counts =
        pack(*packer, owner, documents, LengthRule(num_virtual, keep_empty));
    py::array_t<std::int64_t> spans({counts.num_spans, std::int64_t{3}});
    py::array_t<std::int64_t> row_offsets(counts.num_rows + 1);
    const auto spans_span = writable_2d<std::int64_t>(spans, 3, "spans");
    const auto offsets_span = writable_1d<std::int64_t>(row_offsets, "row_offsets");
    std::optional<RowKey> row_key;
    if (key) {
        const auto& [seed, epoch, window] = *key;
        row_key = {.seed = seed, .epoch = epoch, .window = window, .cost_groups = cost_groups};
    }
    {
        const py::gil_scoped_release release;
        packer->write(row_key, spans_span, offsets_span);
    }
    pool.give_back(std::move(packer));
    return py::make_tuple(spans, row_offsets);
}

void fill_chunk_rows(std::uint64_t seed, std::uint64_t epoch, std::uint64_t num_rows,
                     std::uint64_t first, py::array out) {
    const auto rows = writable_1d<std::int64_t>(out, "out");
    if (rows.size() > num_rows || first > num_rows - rows.size()) {
        throw_argument("first + count must be at most num_rows=" + std::to_string(num_rows) +
                       ", got first=" + std::to_string(first) +
                       ", count=" + std::to_string(rows.size()));
    }
    if (!rows.empty()) {
        chunk_rows(seed, epoch, num_rows).fill(first, rows);
    }
}

}  // namespace

void bind_best_fit(py::module_& module) {
    py::class_<PackerPool>(module, "BestFitRule")
        .def(
            py::init([](std::int64_t seq_len, const std::string& long_documents, bool decreasing,
                        std::int64_t max_documents, std::int64_t align, std::int64_t min_fragment) {
                return PackerPool({.seq_len = seq_len,
                                   .long_documents = long_documents_of(long_documents),
                                   .decreasing = decreasing,
                                   .max_documents = max_documents,
                                   .align = align,
                                   .min_fragment = min_fragment});
            }),
            py::kw_only(), py::arg("seq_len"), py::arg("long_documents"), py::arg("decreasing"),
            py::arg("max_documents"), py::arg("align"), py::arg("min_fragment"));
    module.def("count_best_fit", &count_best_fit, py::arg("index"), py::arg("documents"),
               py::arg("rule"), py::kw_only(), py::arg("num_virtual"), py::arg("keep_empty"));
    module.def(
        "chunk_cut",
        [](std::uint64_t seed, std::uint64_t epoch, std::int64_t seq_len) {
            if (seq_len < 1) {
                throw_argument("seq_len must be at least 1, got seq_len=" +
                               std::to_string(seq_len));
            }
            return chunk_cut(seed, epoch, static_cast<std::uint64_t>(seq_len));
        },
        py::arg("seed"), py::arg("epoch"), py::arg("seq_len"));
    module.def("fill_chunk_rows", &fill_chunk_rows, py::arg("seed"), py::arg("epoch"),
               py::arg("num_rows"), py::arg("first"), py::arg("out"));
    module.def("best_fit", &best_fit, py::arg("index"), py::arg("documents"), py::arg("rule"),
               py::kw_only(), py::arg("num_virtual"), py::arg("keep_empty"), py::arg("key"),
               py::arg("cost_groups") = 0);
}

}  // namespace datacursor::bindings
