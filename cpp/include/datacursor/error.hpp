// The one exception type of the core.
//
// The core checks every value that reaches it from outside and throws Error;
// the bindings map each kind to one Python class (bindings/errors.cpp). Other
// exceptions leaving the core are defects.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace datacursor {

enum class ErrorKind : std::uint8_t {
    kArgument,  // a caller's value is out of its range
    kFormat,    // bytes that are not what they claim to be
    kCorpus,    // token data that cannot be trusted
};

class Error : public std::runtime_error {
public:
    Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}

    [[nodiscard]] ErrorKind kind() const noexcept { return kind_; }

private:
    ErrorKind kind_;
};

}  // namespace datacursor
