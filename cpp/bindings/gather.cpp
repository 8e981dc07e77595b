// TokenTable and ColumnTable: checks, GIL, calls to the core.
#include "datacursor/gather.hpp"

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
#include "datacursor/gather_column.hpp"
#include "document_shards.hpp"

namespace py = pybind11;

namespace datacursor::bindings {
namespace {

using TokenArrays = std::tuple<py::array, std::optional<py::array>, py::array>;

// As OwningLengthIndex.
struct OwningTokenTable {
    std::vector<TokenArrays> arrays;
    TokenTable table;
};

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

// As OwningLengthIndex.
struct OwningColumnTable {
    std::vector<TokenArrays> arrays;
    ColumnTable table;
};

template <typename... Ts>
ColumnSpan column_span_of(const py::array& values, const std::string& name) {
    std::optional<ColumnSpan> found;
    static_cast<void>(
        ((has_dtype<Ts>(values) && (found = readable_1d<Ts>(values, name), true)) || ...));
    if (!found) {
        throw_argument(name + " must be an array of unsigned integers, got " + describe(values));
    }
    return *found;
}

template <typename... Ts>
ColumnOut column_out_of(py::array& out) {
    std::optional<ColumnOut> found;
    static_cast<void>(((has_dtype<Ts>(out) && (found = writable<Ts>(out, 2, "out"), true)) || ...));
    if (!found) {
        throw_argument("out must be a 2-D array of unsigned integers, got " + describe(out));
    }
    return *found;
}

OwningColumnTable make_column_table(std::vector<TokenArrays> arrays) {
    std::vector<ColumnShard> shards;
    shards.reserve(arrays.size());
    for (const auto& [values, begins, ends] : arrays) {
        const std::string name = "shards[" + std::to_string(shards.size()) + "] values";
        shards.push_back(
            {.values = column_span_of<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>(
                 values, name),
             .documents = document_shard(begins, ends, shards.size())});
    }
    ColumnTable table = [&] {
        const py::gil_scoped_release release;
        return ColumnTable(shards);
    }();
    return {.arrays = std::move(arrays), .table = std::move(table)};
}

void gather_column(const OwningColumnTable& self, const py::array& spans,
                   const py::array& row_offsets, bool bos, bool eos, bool shifted,
                   std::int64_t align, std::optional<std::int64_t> longest, std::uint64_t fill,
                   py::array& out) {
    const auto spans_span = readable_2d<std::int64_t>(spans, 3, "spans");
    const auto offsets_span = readable_1d<std::int64_t>(row_offsets, "row_offsets");
    const ColumnOut places =
        column_out_of<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>(out);
    check_apart({memory_of("spans", spans_span), memory_of("row_offsets", offsets_span)},
                {memory_of("out", places)});
    const std::optional<std::int64_t> some_id = 0;
    const GatherOptions options{.bos = bos ? some_id : std::nullopt,
                                .eos = eos ? some_id : std::nullopt,
                                .shifted = shifted,
                                .align = align,
                                .longest = longest};
    const py::gil_scoped_release release;
    self.table.gather(spans_span, offsets_span, options, out.shape(1), fill, places);
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

IdSpan id_field(py::array& input_ids) {
    if (has_dtype<std::int32_t>(input_ids)) {
        return writable<std::int32_t>(input_ids, 2, "input_ids");
    }
    return writable<std::int64_t>(input_ids, 2, "input_ids");
}

MaskSpan mask_field(std::optional<py::array>& loss_mask, const py::array& input_ids) {
    if (loss_mask && has_dtype<float>(*loss_mask)) {
        return field<float>(loss_mask, input_ids, "loss_mask");
    }
    return field<bool>(loss_mask, input_ids, "loss_mask");
}

py::tuple gather(const OwningTokenTable& self, const py::array& spans, const py::array& row_offsets,
                 std::optional<std::int64_t> bos, std::optional<std::int64_t> eos, std::int64_t pad,
                 bool shifted, std::int64_t no_label, bool continued, std::int64_t align,
                 std::optional<std::int64_t> longest, py::array& input_ids,
                 std::optional<py::array> labels, std::optional<py::array> position_ids,
                 std::optional<py::array> segment_ids, std::optional<py::array> loss_mask,
                 std::optional<py::array> cu_seqlens) {
    const auto spans_span = readable_2d<std::int64_t>(spans, 3, "spans");
    const auto offsets_span = readable_1d<std::int64_t>(row_offsets, "row_offsets");
    BatchFields fields;
    fields.input_ids = id_field(input_ids);
    fields.num_rows = input_ids.shape(0);
    fields.seq_len = input_ids.shape(1);
    fields.labels = field<std::int64_t>(labels, input_ids, "labels");
    fields.position_ids = field<std::int64_t>(position_ids, input_ids, "position_ids");
    fields.segment_ids = field<std::int32_t>(segment_ids, input_ids, "segment_ids");
    fields.loss_mask = mask_field(loss_mask, input_ids);
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
                                .no_label = no_label,
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

void bind_gather(py::module_& module) {
    py::class_<OwningTokenTable>(module, "TokenTable")
        .def(py::init(&make_token_table), py::arg("shards"))
        .def_property_readonly(
            "num_documents",
            [](const OwningTokenTable& self) { return self.table.num_documents(); })
        .def("gather", &gather, py::arg("spans"), py::arg("row_offsets"), py::kw_only(),
             py::arg("bos"), py::arg("eos"), py::arg("pad"), py::arg("shifted"),
             py::arg("no_label"), py::arg("continued"), py::arg("align"), py::arg("longest"),
             py::arg("input_ids"), py::arg("labels"), py::arg("position_ids"),
             py::arg("segment_ids"), py::arg("loss_mask"), py::arg("cu_seqlens"));

    py::class_<OwningColumnTable>(module, "ColumnTable")
        .def(py::init(&make_column_table), py::arg("shards"))
        .def_property_readonly(
            "num_documents",
            [](const OwningColumnTable& self) { return self.table.num_documents(); })
        .def("gather", &gather_column, py::arg("spans"), py::arg("row_offsets"), py::kw_only(),
             py::arg("bos"), py::arg("eos"), py::arg("shifted"), py::arg("align"),
             py::arg("longest"), py::arg("fill"), py::arg("out"));
}

}  // namespace datacursor::bindings
