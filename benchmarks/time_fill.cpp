// Times filling a cached buffer with a permutation, beside what bounds it.
//
// Usage: datacursor_time_fill NUM_SAMPLES...
// Checks every fill against the scalar definition, then prints a line for each measure,
// its name and the best nanoseconds an index over interleaved turns:
//     cycle             one processor cycle, from a chain of dependent multiplies
//     store             a loop that stores a constant, one index a store
//     memset            memset of the buffer
//     fill/NUM_SAMPLES  Permutation::fill
//     scalar/NUM_SAMPLES  Permutation::index_at in a loop
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "datacursor/permutation.hpp"

namespace {

using datacursor::Permutation;

constexpr std::size_t kBufferSize = 2048;  // 16 KiB: half of a small first-level cache
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

// Walks over the epoch, a buffer at a time, so that no run repeats the one before.
class Walk {
public:
    explicit Walk(std::uint64_t num_samples) : limit_(num_samples - kBufferSize) {}

    std::uint64_t next() {
        first_ = (first_ + kBufferSize) % limit_;
        return first_;
    }

private:
    std::uint64_t limit_;
    std::uint64_t first_ = 0;
};

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

void fill_scalar(const Permutation& permutation, std::uint64_t first, Buffer& out) {
    for (std::size_t i = 0; i < out.size(); ++i) {
        out[i] = static_cast<std::int64_t>(permutation.index_at(first + i));
    }
}

bool fill_is_right(const Permutation& permutation) {
    Buffer filled(kBufferSize);
    Buffer expected(kBufferSize);
    Walk walk(permutation.num_samples());
    for (int i = 0; i < 16; ++i) {
        const std::uint64_t first = walk.next();
        permutation.fill(first, filled);
        fill_scalar(permutation, first, expected);
        if (filled != expected) {
            return false;
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

void add_fills(std::vector<Measure>& measures, const Permutation& permutation, Buffer& buffer) {
    const std::string size = std::to_string(permutation.num_samples());
    measures.push_back({"fill/" + size,
                        [&, walk = Walk(permutation.num_samples())]() mutable {
                            permutation.fill(walk.next(), buffer);
                        },
                        kBufferSize});
    measures.push_back({"scalar/" + size,
                        [&, walk = Walk(permutation.num_samples())]() mutable {
                            fill_scalar(permutation, walk.next(), buffer);
                        },
                        kBufferSize});
}

}  // namespace

int main(int argc, char** argv) {
    std::vector<Permutation> permutations;
    for (int i = 1; i < argc; ++i) {
        const std::uint64_t num_samples = std::strtoull(argv[i], nullptr, 10);
        if (num_samples <= 2 * kBufferSize) {
            std::fprintf(stderr, "NUM_SAMPLES must be above %zu, got %s\n", 2 * kBufferSize,
                         argv[i]);
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
        add_fills(measures, permutation, buffer);
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
