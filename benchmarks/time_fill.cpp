// Times permutations that fill a cached buffer, beside what bounds them.
//
// Usage: datacursor_time_fill NUM_SAMPLES...
// Checks every fill against the scalar definition, then prints a line for each measure,
// its name and the best nanoseconds over interleaved turns, an index if not said otherwise:
//     cycle                    one processor cycle, from a chain of dependent multiplies
//     store                    a loop that stores a constant, one index a store
//     memset                   memset of the buffer
//     fill/NUM_SAMPLES         Permutation::fill of 2048 indices, or of all there are
//     index_at/NUM_SAMPLES     Permutation::index_at in a loop
//     position_of/NUM_SAMPLES  Permutation::position_of in a loop
//     epoch/NUM_SAMPLES        construction of a Permutation, so a change of the epoch
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "datacursor/permutation.hpp"

namespace {

using datacursor::Permutation;

constexpr std::size_t kBufferSize = 2048;  // 16 KiB: half of a small first-level cache
constexpr std::size_t kLoopSize = 128;     // of the scalar loops, which are slower
constexpr int kTurns = 1000;
constexpr int kRunsInTurn = 8;
constexpr double kMultiplyCycles = 3;  // latency of a 64-bit multiply, x86-64 and AArch64 alike

using Buffer = std::vector<std::int64_t>;

struct Measure {
    std::string name;
    std::function<void()> run;
    double divisor;  // units of the result in one run
    double best_nanoseconds = std::numeric_limits<double>::infinity();
};

void take_turn(Measure& measure) {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    for (int i = 0; i < kRunsInTurn; ++i) {
        measure.run();
    }
    const std::chrono::duration<double, std::nano> elapsed = Clock::now() - start;
    measure.best_nanoseconds =
        std::min(measure.best_nanoseconds, elapsed.count() / kRunsInTurn / measure.divisor);
}

// Walks over the epoch, `step` indices at a time, so that no run repeats the one before.
class Walk {
public:
    Walk(std::uint64_t num_samples, std::size_t step)
        : num_places_(num_samples - step + 1), step_(step) {}

    std::uint64_t next() {
        first_ = (first_ + step_) % num_places_;
        return first_;
    }

private:
    std::uint64_t num_places_;
    std::size_t step_;
    std::uint64_t first_ = 0;
};

std::size_t at_most(std::size_t size, std::uint64_t num_samples) {
    return static_cast<std::size_t>(std::min<std::uint64_t>(size, num_samples));
}

// Store a constant, one index a store. Volatile, so that the constant lies in a register
// and the loop becomes neither vectors nor a memset.
void store_each(Buffer& out) {
    volatile std::int64_t opaque = 7;
    const std::int64_t value = opaque;
    volatile std::int64_t* place = out.data();
    for (std::size_t i = 0; i < kBufferSize; ++i) {
        place[i] = value;
    }
}

bool fill_is_right(const Permutation& permutation) {
    const std::size_t size = at_most(kBufferSize, permutation.num_samples());
    Buffer out(size);
    Walk walk(permutation.num_samples(), size);
    for (int i = 0; i < 16; ++i) {
        const std::uint64_t first = walk.next();
        permutation.fill(first, out);
        for (std::size_t j = 0; j < size; ++j) {
            const auto index = static_cast<std::uint64_t>(out[j]);
            if (index != permutation.index_at(first + j) ||
                permutation.position_of(index) != first + j) {
                return false;
            }
        }
    }
    return true;
}

void add_limits(std::vector<Measure>& measures, Buffer& buffer) {
    measures.push_back({"cycle",
                        [factor = std::uint64_t{0x9E3779B97F4A7C15}]() mutable {
                            std::uint64_t product = factor;
                            for (std::size_t i = 0; i < kBufferSize; ++i) {
                                product *= factor;
                            }
                            factor = product | 1;
                        },
                        kBufferSize * kMultiplyCycles});
    measures.push_back({"store", [&buffer] { store_each(buffer); }, kBufferSize});
    measures.push_back({"memset",
                        [&buffer, set = &std::memset] {
                            // Through a volatile pointer, so that no call is left out.
                            void* (*volatile opaque)(void*, int, std::size_t) = set;
                            opaque(buffer.data(), 7, kBufferSize * sizeof(std::int64_t));
                        },
                        kBufferSize});
}

// Call(position) for `size` positions in a row; their sum keeps the compiler from leaving
// calls out.
template <class Call>
Measure loop(std::string name, std::uint64_t num_samples, Call call) {
    const std::size_t size = at_most(kLoopSize, num_samples);
    return {std::move(name),
            [call, size, walk = Walk(num_samples, size)]() mutable {
                const std::uint64_t first = walk.next();
                std::uint64_t sum = 0;
                for (std::size_t i = 0; i < size; ++i) {
                    sum += call(first + i);
                }
                [[maybe_unused]] volatile std::uint64_t kept = sum;
            },
            static_cast<double>(size)};
}

void add_permutation(std::vector<Measure>& measures, const Permutation& permutation,
                     Buffer& buffer) {
    const std::uint64_t num_samples = permutation.num_samples();
    const std::string size = std::to_string(num_samples);
    const std::span<std::int64_t> out(buffer.data(), at_most(kBufferSize, num_samples));
    measures.push_back({"fill/" + size,
                        [&permutation, out, walk = Walk(num_samples, out.size())]() mutable {
                            permutation.fill(walk.next(), out);
                        },
                        static_cast<double>(out.size())});
    measures.push_back(loop("index_at/" + size, num_samples, [&](std::uint64_t position) {
        return permutation.index_at(position);
    }));
    measures.push_back(loop("position_of/" + size, num_samples,
                            [&](std::uint64_t index) { return permutation.position_of(index); }));
    measures.push_back({"epoch/" + size,
                        [num_samples, epoch = std::uint64_t{0}]() mutable {
                            const Permutation next(num_samples, {.seed = 1, .epoch = epoch++});
                            [[maybe_unused]] volatile std::uint64_t kept = next.index_at(0);
                        },
                        1});
}

}  // namespace

int main(int argc, char** argv) {
    std::vector<Permutation> permutations;
    for (int i = 1; i < argc; ++i) {
        const std::uint64_t num_samples = std::strtoull(argv[i], nullptr, 10);
        if (num_samples == 0) {
            std::fprintf(stderr, "NUM_SAMPLES must be at least 1, got %s\n", argv[i]);
            return 2;
        }
        permutations.emplace_back(num_samples, datacursor::PermutationKey{.seed = 1, .epoch = 1});
    }

    Buffer buffer(kBufferSize);
    std::vector<Measure> measures;
    add_limits(measures, buffer);
    for (const Permutation& permutation : permutations) {
        if (!fill_is_right(permutation)) {
            std::fprintf(stderr, "fill differs from index_at at n = %llu\n",
                         static_cast<unsigned long long>(permutation.num_samples()));
            return 1;
        }
        add_permutation(measures, permutation, buffer);
    }
    for (int turn = 0; turn < kTurns; ++turn) {
        for (Measure& measure : measures) {
            take_turn(measure);
        }
    }
    for (const Measure& measure : measures) {
        std::printf("%s %.6f\n", measure.name.c_str(), measure.best_nanoseconds);
    }
    return 0;
}
