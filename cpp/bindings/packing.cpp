// LengthIndex and the concat packer: checks, GIL, calls to the core.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <utility>
#include <vector>

#include "bindings.hpp"
#include "buffers.hpp"
#include "datacursor/packer.hpp"
#include "document_shards.hpp"
#include "owning_length_index.hpp"

namespace py = pybind11;

namespace datacursor::bindings {
namespace {

OwningLengthIndex make_length_index(std::vector<LengthArrays> arrays) {
    std::vector<DocumentShard> shards;
    shards.reserve(arrays.size());
    for (const auto& [begins, ends] : arrays) {
        shards.push_back(document_shard(begins, ends, shards.size()));
    }
    // An exception must leave the released scope before the arrays are destroyed.
    LengthIndex index = [&] {
        const py::gil_scoped_release release;
        return LengthIndex(std::move(shards));
    }();
    return {.arrays = std::move(arrays), .index = std::move(index)};
}

py::array_t<std::int64_t> lengths(const OwningLengthIndex& self, std::int64_t first,
                                  std::int64_t count) {
    if (count < 0 || count > self.index.num_documents()) {
        throw_argument("count must be in [0, " + std::to_string(self.index.num_documents()) +
                       "], got count=" + std::to_string(count));
    }
    py::array_t<std::int64_t> out(count);
    const std::span<std::int64_t> span = writable_1d<std::int64_t>(out, "lengths");
    const py::gil_scoped_release release;
    self.index.lengths(first, span);
    return out;
}

py::tuple concat(const OwningLengthIndex& owner, const py::array& documents, std::int64_t seq_len,
                 std::int64_t num_virtual, bool keep_empty, std::int64_t offset,
                 std::int64_t filled, py::array& spans, py::array& row_ends) {
    const LengthRule rule(num_virtual, keep_empty);
    const auto documents_span = readable_1d<std::int64_t>(documents, "documents");
    const auto spans_span = writable_2d<std::int64_t>(spans, 3, "spans");
    const auto row_ends_span = writable_1d<std::int64_t>(row_ends, "row_ends");
    check_apart({memory_of("documents", documents_span)},
                {memory_of("spans", spans_span), memory_of("row_ends", row_ends_span)});
    ConcatProgress progress;
    {
        const py::gil_scoped_release release;
        progress = pack_concat(owner.index, rule, seq_len, documents_span,
                               {.offset = offset, .filled = filled}, spans_span, row_ends_span);
    }
    return py::make_tuple(progress.documents_read, progress.state.offset, progress.state.filled,
                          progress.num_spans, progress.num_rows);
}

void count_tokens_into(const OwningLengthIndex& owner, const py::array& documents,
                       std::int64_t num_virtual, bool keep_empty, std::int64_t stride,
                       std::int64_t before, py::array& totals) {
    const LengthRule rule(num_virtual, keep_empty);
    const auto documents_span = readable_1d<std::int64_t>(documents, "documents");
    const auto totals_span = writable_1d<std::int64_t>(totals, "totals");
    check_apart({memory_of("documents", documents_span)}, {memory_of("totals", totals_span)});
    const py::gil_scoped_release release;
    count_tokens(owner.index, rule, documents_span, stride, before, totals_span);
}

py::tuple locate(const OwningLengthIndex& owner, const py::array& documents,
                 std::int64_t num_virtual, bool keep_empty, std::int64_t target) {
    const LengthRule rule(num_virtual, keep_empty);
    const auto documents_span = readable_1d<std::int64_t>(documents, "documents");
    const TokenPlace found = locate_token(owner.index, rule, documents_span, target);
    return py::make_tuple(found.place, found.offset);
}

std::size_t cut_rows_into(const OwningLengthIndex& owner, const py::array& totals,
                          std::int64_t stride, const py::array& rows, std::int64_t first_token,
                          std::int64_t seq_len, std::int64_t num_virtual, bool keep_empty,
                          py::array& spans, py::array& row_ends) {
    const LengthRule rule(num_virtual, keep_empty);
    const auto totals_span = readable_1d<std::int64_t>(totals, "totals");
    const auto rows_span = readable_1d<std::int64_t>(rows, "rows");
    const auto spans_span = writable_2d<std::int64_t>(spans, 3, "spans");
    const auto row_ends_span = writable_1d<std::int64_t>(row_ends, "row_ends");
    check_apart({memory_of("totals", totals_span), memory_of("rows", rows_span)},
                {memory_of("spans", spans_span), memory_of("row_ends", row_ends_span)});
    const py::gil_scoped_release release;
    return cut_rows(owner.index, rule, totals_span, stride,
                    {.first_token = first_token, .seq_len = seq_len}, rows_span, spans_span,
                    row_ends_span);
}

}  // namespace

void bind_packing(py::module_& module) {
    py::class_<OwningLengthIndex>(module, "LengthIndex")
        .def(py::init(&make_length_index), py::arg("shards"))
        .def_property_readonly(
            "num_documents",
            [](const OwningLengthIndex& self) { return self.index.num_documents(); })
        .def_property_readonly(
            "num_tokens", [](const OwningLengthIndex& self) { return self.index.num_tokens(); })
        .def_property_readonly("num_empty",
                               [](const OwningLengthIndex& self) { return self.index.num_empty(); })
        .def_property_readonly("longest",
                               [](const OwningLengthIndex& self) { return self.index.longest(); })
        .def("lengths", &lengths, py::arg("first"), py::arg("count"));

    module.def("concat", &concat, py::arg("index"), py::arg("documents"), py::kw_only(),
               py::arg("seq_len"), py::arg("num_virtual"), py::arg("keep_empty"), py::arg("offset"),
               py::arg("filled"), py::arg("spans"), py::arg("row_ends"));
    module.def("count_tokens", &count_tokens_into, py::arg("index"), py::arg("documents"),
               py::kw_only(), py::arg("num_virtual"), py::arg("keep_empty"), py::arg("stride"),
               py::arg("before"), py::arg("totals"));
    module.def("cut_rows", &cut_rows_into, py::arg("index"), py::arg("totals"), py::arg("stride"),
               py::arg("rows"), py::kw_only(), py::arg("first_token"), py::arg("seq_len"),
               py::arg("num_virtual"), py::arg("keep_empty"), py::arg("spans"),
               py::arg("row_ends"));
    module.def("locate_token", &locate, py::arg("index"), py::arg("documents"), py::kw_only(),
               py::arg("num_virtual"), py::arg("keep_empty"), py::arg("target"));
}

}  // namespace datacursor::bindings
