#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <vector>

#include "datacursor/error.hpp"
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

Network make_network(std::uint64_t num_samples, std::uint32_t right_bits) {
    const bool narrow = num_samples <= kMaxNarrowSize;
    Network network{.num_samples = num_samples,
                    .num_rows = ((num_samples - 1) >> right_bits) + 1,
                    .right_bits = right_bits,
                    .word_bits = narrow ? 16U : 32U,
                    .num_rounds = narrow ? 10U : 8U};
    for (std::size_t i = 0; i < network.num_rounds; ++i) {
        network.keys[i] =
            static_cast<std::uint32_t>(i * 40503 + 17) & (narrow ? 0xFFFFU : 0xFFFFFFFFU);
    }
    return network;
}

void check_kernel(const FillKernel& kernel, const Network& network, std::uint64_t first) {
    const FillFunction fill = network.word_bits == 16 ? kernel.fill_narrow : kernel.fill_wide;
    std::vector<std::int64_t> out(1000);
    fill(network, first, out.size(), out.data());
    for (std::size_t i = 0; i < out.size(); ++i) {
        const std::uint64_t expected = network.forward(first + i);
        BOOST_REQUIRE(static_cast<std::uint64_t>(out[i]) == expected);
        BOOST_REQUIRE(network.backward(expected) == first + i);
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

// Both kernels against the definition, at the sizes where word and row sizes change.
BOOST_AUTO_TEST_CASE(kernels_equal_the_scalar_network) {
    constexpr std::uint64_t kOne = 1;
    for (const Network& network :
         {make_network(4097, 7), make_network(5000, 7), make_network(kOne << 31, 16),
          make_network((kOne << 31) + 1, 16), make_network((kOne << 63) - 1, 32)}) {
        for (const std::uint64_t first :
             {std::uint64_t{0}, std::uint64_t{61}, network.num_samples - 1000}) {
            check_kernel(fill_kernel(), network, first);
            check_kernel(kPortableKernel, network, first);
        }
    }
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
