// Checks that a call throws an Error of one kind whose message holds a text.
#pragma once

#include <boost/test/unit_test.hpp>
#include <string>

#include "datacursor/error.hpp"

namespace datacursor::tests {

template <typename Call>
void check_refused(ErrorKind kind, const std::string& text, const Call& call) {
    BOOST_CHECK_EXCEPTION(call(), Error, [&](const Error& error) {
        BOOST_TEST_MESSAGE(error.what());
        return error.kind() == kind && std::string(error.what()).find(text) != std::string::npos;
    });
}

}  // namespace datacursor::tests
