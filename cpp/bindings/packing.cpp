// LengthIndex, the concat packer and TokenTable: checks, GIL, calls to the core.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "buffers.hpp"
#include "datacursor/gather.hpp"
#include "datacursor/packer.hpp"
#include "owning_length_index.hpp"

namespace py = pybind11;

namespace datacursor::bindings {
namespace {

using TokenArrays = std::tuple<py::array, std::optional<py::array>, py::array>;

// As OwningLengthIndex.
struct OwningTokenTable {
    std::vector<TokenArrays> arrays;
    TokenTable table;
};

template <typename T>
DocumentShard offset_spans(const std::optional<py::array>& begins, const py::array& ends,
                           const std::string& shard) {
    OffsetSpans<T> offsets{.begins = {}, .ends = readable_1d<T>(ends, shard + " ends")};
    if (begins) {
        offsets.begins = readable_1d<T>(*begins, shard + " begins");
    }
    return offsets;
}

DocumentShard document_shard(const std::optional<py::array>& begins, const py::array& ends,
                             std::size_t number) {
    const std::string shard = "shards[" + std::to_string(number) + "]";
    if (has_dtype<std::int32_t>(ends)) {
        return offset_spans<std::int32_t>(begins, ends, shard);
    }
    if (has_dtype<std::int64_t>(ends)) {
        return offset_spans<std::int64_t>(begins, ends, shard);
    }
    if (has_dtype<std::uint32_t>(ends)) {
        return offset_spans<std::uint32_t>(begins, ends, shard);
    }
    if (has_dtype<std::uint64_t>(ends)) {
        return offset_spans<std::uint64_t>(begins, ends, shard);
    }
    throw_argument(shard + " ends must be int32, int64, uint32 or uint64, got " + describe(ends));
}

template <typename... Ts>
TokenSpan token_span_of(const py::array& tokens, const std::string& name) {
    std::optional<TokenSpan> found;
    // The first type that fits, in the order of the variant.
    static_cast<void>(
        ((has_dtype<Ts>(tokens) && (found = readable_1d<Ts>(tokens, name), true)) || ...));
    if (!found) {
        throw_argument(name + " must be an array of 8- to 64-bit integers, got " +
                       describe(tokens));
    }
    return *found;
}

TokenSpan token_span(const py::array& tokens, std::size_t number) {
    return token_span_of<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t, std::int8_t,
                         std::int16_t, std::int32_t, std::int64_t>(
        tokens, "shards[" + std::to_string(number) + "] tokens");
}

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

OwningTokenTable make_token_table(std::vector<TokenArrays> arrays) {
    std::vector<TokenShard> shards;
    shards.reserve(arrays.size());
    for (const auto& [tokens, begins, ends] : arrays) {
        shards.push_back({.tokens = token_span(tokens, shards.size()),
                          .documents = document_shard(begins, ends, shards.size())});
    }
    TokenTable table = [&] {
        const py::gil_scoped_release release;
        return TokenTable(shards);
    }();
    return {.arrays = std::move(arrays), .table = std::move(table)};
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
                          std::int64_t stride, const py::array& ranges, std::int64_t num_virtual,
                          bool keep_empty, py::array& spans, py::array& row_ends) {
    const LengthRule rule(num_virtual, keep_empty);
    const auto totals_span = readable_1d<std::int64_t>(totals, "totals");
    const auto ranges_span = readable_2d<std::int64_t>(ranges, 2, "ranges");
    const auto spans_span = writable_2d<std::int64_t>(spans, 3, "spans");
    const auto row_ends_span = writable_1d<std::int64_t>(row_ends, "row_ends");
    check_apart({memory_of("totals", totals_span), memory_of("ranges", ranges_span)},
                {memory_of("spans", spans_span), memory_of("row_ends", row_ends_span)});
    const py::gil_scoped_release release;
    return cut_rows(owner.index, rule, totals_span, stride, ranges_span, spans_span, row_ends_span);
}

// A field of the batch, of the shape of input_ids; None leaves it out.
template <typename T>
std::span<T> field(std::optional<py::array>& array, const py::array& input_ids, const char* name) {
    if (!array) {
        return {};
    }
    const std::span<T> elements = writable_2d<T>(*array, input_ids.shape(1), name);
    if (array->shape(0) != input_ids.shape(0)) {
        throw_argument(std::string(name) + " must have the shape of input_ids, " +
                       describe(input_ids) + ", got " + describe(*array));
    }
    return elements;
}

py::tuple gather(const OwningTokenTable& self, const py::array& spans, const py::array& row_offsets,
                 std::optional<std::int64_t> bos, std::optional<std::int64_t> eos, std::int64_t pad,
                 bool shifted, bool continued, std::int64_t align,
                 std::optional<std::int64_t> longest, py::array& input_ids,
                 std::optional<py::array> labels, std::optional<py::array> position_ids,
                 std::optional<py::array> segment_ids, std::optional<py::array> loss_mask,
                 std::optional<py::array> cu_seqlens) {
    const auto spans_span = readable_2d<std::int64_t>(spans, 3, "spans");
    const auto offsets_span = readable_1d<std::int64_t>(row_offsets, "row_offsets");
    BatchFields fields;
    fields.input_ids = writable<std::int64_t>(input_ids, 2, "input_ids");
    fields.num_rows = input_ids.shape(0);
    fields.seq_len = input_ids.shape(1);
    fields.labels = field<std::int64_t>(labels, input_ids, "labels");
    fields.position_ids = field<std::int64_t>(position_ids, input_ids, "position_ids");
    fields.segment_ids = field<std::int32_t>(segment_ids, input_ids, "segment_ids");
    fields.loss_mask = field<bool>(loss_mask, input_ids, "loss_mask");
    if (cu_seqlens) {
        fields.cu_seqlens = writable_1d<std::int32_t>(*cu_seqlens, "cu_seqlens");
    }
    check_apart(
        {memory_of("spans", spans_span), memory_of("row_offsets", offsets_span)},
        {memory_of("input_ids", fields.input_ids), memory_of("labels", fields.labels),
         memory_of("position_ids", fields.position_ids),
         memory_of("segment_ids", fields.segment_ids), memory_of("loss_mask", fields.loss_mask),
         memory_of("cu_seqlens", fields.cu_seqlens)});
    const GatherOptions options{.bos = bos,
                                .eos = eos,
                                .pad = pad,
                                .shifted = shifted,
                                .continued = continued,
                                .align = align,
                                .longest = longest};
    BatchTotals totals;
    {
        const py::gil_scoped_release release;
        totals = self.table.gather(spans_span, offsets_span, options, fields);
    }
    return py::make_tuple(totals.num_boundaries, totals.max_seqlen, totals.num_targets);
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
               py::arg("ranges"), py::kw_only(), py::arg("num_virtual"), py::arg("keep_empty"),
               py::arg("spans"), py::arg("row_ends"));
    module.def("locate_token", &locate, py::arg("index"), py::arg("documents"), py::kw_only(),
               py::arg("num_virtual"), py::arg("keep_empty"), py::arg("target"));

    py::class_<OwningTokenTable>(module, "TokenTable")
        .def(py::init(&make_token_table), py::arg("shards"))
        .def_property_readonly(
            "num_documents",
            [](const OwningTokenTable& self) { return self.table.num_documents(); })
        .def("gather", &gather, py::arg("spans"), py::arg("row_offsets"), py::kw_only(),
             py::arg("bos"), py::arg("eos"), py::arg("pad"), py::arg("shifted"),
             py::arg("continued"), py::arg("align"), py::arg("longest"), py::arg("input_ids"),
             py::arg("labels"), py::arg("position_ids"), py::arg("segment_ids"),
             py::arg("loss_mask"), py::arg("cu_seqlens"));
}

}  // namespace datacursor::bindings
