// The documents of a shard, seen in the arrays of its offsets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "buffers.hpp"
#include "datacursor/length_index.hpp"

namespace datacursor::bindings {

template <typename T>
DocumentShard offset_spans(const std::optional<pybind11::array>& begins,
                           const pybind11::array& ends, const std::string& shard) {
    OffsetSpans<T> offsets{.begins = {}, .ends = readable_1d<T>(ends, shard + " ends")};
    if (begins) {
        offsets.begins = readable_1d<T>(*begins, shard + " begins");
    }
    return offsets;
}

inline DocumentShard document_shard(const std::optional<pybind11::array>& begins,
                                    const pybind11::array& ends, std::size_t number) {
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

}  // namespace datacursor::bindings
