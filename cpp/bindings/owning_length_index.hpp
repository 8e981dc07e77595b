// A LengthIndex that keeps the arrays it borrows alive.
#pragma once

#include <pybind11/numpy.h>

#include <optional>
#include <tuple>
#include <vector>

#include "datacursor/length_index.hpp"

namespace datacursor::bindings {

using LengthArrays = std::tuple<std::optional<pybind11::array>, pybind11::array>;

struct OwningLengthIndex {
    std::vector<LengthArrays> arrays;
    LengthIndex index;
};

}  // namespace datacursor::bindings
