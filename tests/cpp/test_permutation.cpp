#include <algorithm>
#include <bit>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "datacursor/error.hpp"
#include "datacursor/kernel.hpp"
#include "datacursor/permutation.hpp"
#include "permutation_kernel.hpp"
#include "vectors.hpp"

namespace {

using namespace datacursor;

std::vector<std::int64_t> filled(const Permutation& permutation, std::uint64_t first,
                                 std::size_t count) {
    std::vector<std::int64_t> out(count);
    permutation.fill(first, out);
    return out;
}

Network make_network(std::uint64_t num_samples) {
    const bool narrow = num_samples <= kMaxNarrowSize;
    const auto right_bits = static_cast<std::uint32_t>(std::bit_width(num_samples - 1) + 1) / 2;
    Network network{.num_samples = num_samples,
                    .num_rows = ((num_samples - 1) >> right_bits) + 1,
                    .right_bits = right_bits,
                    .word_bits = narrow ? 16U : 32U};
    for (std::size_t i = 0; i < network.keys.size(); ++i) {
        network.keys[i] =
            static_cast<std::uint32_t>(i * 2654435761 + 17) & (narrow ? 0xFFFFU : 0xFFFFFFFFU);
    }
    return network;
}

std::vector<std::int64_t> expected_values(const Network& network, std::uint64_t first,
                                          std::size_t count) {
    std::vector<std::int64_t> values(count);
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t value = network.forward(first + i);
        BOOST_REQUIRE(network.backward(value) == first + i);
        values[i] = static_cast<std::int64_t>(value);
    }
    return values;
}

// Every kernel over the same values; nothing before or behind them may be written.
void check_kernels(const Network& network, std::uint64_t first, std::size_t count) {
    constexpr std::int64_t kUntouched = -7;
    std::vector<std::int64_t> expected = expected_values(network, first, count);
    expected.insert(expected.begin(), kUntouched);
    expected.push_back(kUntouched);
    for (const FillKernel* kernel : fill_kernels()) {
        std::vector<std::int64_t> out(expected.size(), kUntouched);
        const bool narrow = network.word_bits == 16;
        (narrow ? kernel->fill_narrow : kernel->fill_wide)(network, first, count, out.data() + 1);
        BOOST_REQUIRE_MESSAGE(out == expected,
                              kernel->name << " differs at num_samples=" << network.num_samples
                                           << ", first=" << first << ", count=" << count);
    }
}

BOOST_AUTO_TEST_SUITE(permutation_suite)

BOOST_AUTO_TEST_CASE(known_answers) {
    for (const tests::Words& words : tests::read_vectors("shuffle.txt")) {
        const PermutationKey key{.seed = tests::decimal(words.at(1)),
                                 .epoch = tests::decimal(words.at(2))};
        const Permutation permutation(tests::decimal(words.at(0)), key);
        const std::uint64_t position = tests::decimal(words.at(3));
        const std::uint64_t index = tests::decimal(words.at(4));
        BOOST_TEST(permutation.index_at(position) == index);
        BOOST_TEST(permutation.position_of(index) == position);
        BOOST_TEST(filled(permutation, position, 1).front() == static_cast<std::int64_t>(index));
    }
}

BOOST_AUTO_TEST_CASE(every_index_comes_once) {
    for (const std::uint64_t n : {1U, 2U, 5U, 4095U, 4096U, 4097U, 5000U, 65537U, 1000003U}) {
        const Permutation permutation(n, {.seed = 3, .epoch = 2});
        std::vector<std::int64_t> indices = filled(permutation, 0, n);
        for (std::uint64_t position = 0; position < n; position += 1 + n / 1000) {
            BOOST_TEST(permutation.index_at(position) ==
                       static_cast<std::uint64_t>(indices[position]));
        }
        std::ranges::sort(indices);
        for (std::uint64_t i = 0; i < n; ++i) {
            BOOST_REQUIRE(static_cast<std::uint64_t>(indices[i]) == i);
        }
    }
}

// Windows of every alignment and length, also across the wrap of the rotation.
BOOST_AUTO_TEST_CASE(any_window_is_a_part_of_the_whole) {
    for (const std::uint64_t n : {4097U, 5003U, 16385U}) {
        const Permutation permutation(n, {.seed = 1, .epoch = 0});
        const std::vector<std::int64_t> whole = filled(permutation, 0, n);
        for (std::uint64_t first = 0; first < n; first += 37) {
            for (const std::uint64_t count : {0U, 1U, 2U, 127U, 128U, 129U, 300U}) {
                const std::uint64_t size = std::min(count, n - first);
                const auto part = whole.begin() + static_cast<std::ptrdiff_t>(first);
                const std::vector<std::int64_t> window = filled(permutation, first, size);
                BOOST_REQUIRE(std::equal(window.begin(), window.end(), part));
            }
        }
    }
}

// The sizes where the halves and the words change their widths.
std::vector<std::uint64_t> sizes_about_powers_of_two() {
    std::vector<std::uint64_t> sizes{4097, 5000, (std::uint64_t{1} << 63) - 1};
    for (std::uint32_t k = 13; k < 63; ++k) {
        const std::uint64_t power = std::uint64_t{1} << k;
        sizes.insert(sizes.end(), {power - 1, power, power + 1});
    }
    return sizes;
}

BOOST_AUTO_TEST_CASE(kernels_equal_the_scalar_network) {
    for (const std::uint64_t size : sizes_about_powers_of_two()) {
        const Network network = make_network(size);
        for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{61}, size - 1003}) {
            check_kernels(network, first, 1003);
        }
    }
}

BOOST_AUTO_TEST_CASE(kernels_equal_the_scalar_network_over_whole_orders) {
    for (const std::uint64_t size : {4097U, 4103U, 5000U, 8191U, 8193U, 16385U, 70000U}) {
        check_kernels(make_network(size), 0, size);
    }
}

BOOST_AUTO_TEST_CASE(kernels_begin_and_end_anywhere) {
    for (const std::uint64_t size : {std::uint64_t{4097}, std::uint64_t{1} << 40}) {
        const Network network = make_network(size);
        for (std::uint64_t first = 0; first < 130; ++first) {
            for (const std::size_t count : {0U, 1U, 2U, 15U, 16U, 17U, 127U, 128U, 129U, 700U}) {
                check_kernels(network, first, count);
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(kernels_have_names) {
    const std::vector<std::string> names = kernel_names();
    BOOST_TEST(names.back() == "scalar");
    BOOST_TEST((std::ranges::find(names, kernel_name()) != names.end()));
}

BOOST_AUTO_TEST_CASE(a_size_that_cannot_be_is_refused) {
    for (const std::uint64_t n : {std::uint64_t{0}, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
        BOOST_CHECK_EXCEPTION(Permutation(n, {}), Error, [](const Error& error) {
            return error.kind() == ErrorKind::kArgument;
        });
    }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
