#include "datacursor/order.hpp"

#include <algorithm>
#include <exception>
#include <numeric>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "datacursor/error.hpp"

namespace datacursor {
namespace {

// Throw unless value lies in [0, limit).
void require_below(std::uint64_t value, std::uint64_t limit, const char* name) {
    if (value >= limit) {
        throw Error(ErrorKind::kArgument, std::string(name) + " must be in [0, " +
                                              std::to_string(limit) + "), got " + name + "=" +
                                              std::to_string(value));
    }
}

void require_range(std::uint64_t first, std::uint64_t count, std::uint64_t num_positions) {
    if (count > num_positions || first > num_positions - count) {
        throw Error(ErrorKind::kArgument,
                    "first + count must be at most num_positions=" + std::to_string(num_positions) +
                        ", got first=" + std::to_string(first) +
                        ", count=" + std::to_string(count));
    }
}

// Fewer than this are filled before a second thread has started.
constexpr std::size_t kMinPerThread = std::size_t{1} << 16;

// Call part(first, count) for consecutive parts of [0, size), each on a thread of its own.
template <class Part>
void in_parallel(std::size_t size, std::size_t num_threads, Part part) {
    const std::size_t per_thread = (size + num_threads - 1) / num_threads;
    std::vector<std::exception_ptr> failures(num_threads);
    const auto guarded = [&](std::size_t number) {
        const std::size_t first = std::min(number * per_thread, size);
        try {
            part(first, std::min(per_thread, size - first));
        } catch (...) {
            failures[number] = std::current_exception();
        }
    };
    std::vector<std::thread> threads;
    threads.reserve(num_threads - 1);
    for (std::size_t number = 1; number < num_threads; ++number) {
        try {
            threads.emplace_back(guarded, number);
        } catch (const std::system_error&) {  // no thread to be had
            guarded(number);
        }
    }
    guarded(0);
    for (std::thread& thread : threads) {
        thread.join();
    }
    for (const std::exception_ptr& failure : failures) {
        if (failure != nullptr) {
            std::rethrow_exception(failure);
        }
    }
}

}  // namespace

Order::Order(std::uint64_t num_samples, std::uint64_t num_positions)
    : num_samples_(num_samples), num_positions_(num_positions) {
    require_size(num_samples, "num_samples");
    require_size(num_positions, "num_positions");
}

void Order::require_size(std::uint64_t value, const char* name) {
    if (value == 0 || value >> 63 != 0) {
        throw Error(ErrorKind::kArgument, std::string(name) + " must be in [1, 2**63), got " +
                                              name + "=" + std::to_string(value));
    }
}

void Order::require_place(std::uint64_t epoch, std::uint64_t position, std::uint64_t limit) {
    require_below(epoch, kEpochLimit, "epoch");
    require_below(position, limit, "position");
}

std::shared_ptr<const Order::Epoch> Order::checked_epoch(std::uint64_t epoch) const {
    require_below(epoch, kEpochLimit, "epoch");
    return epoch_at(epoch);
}

std::uint64_t Order::index_at(std::uint64_t epoch, std::uint64_t position) const {
    require_place(epoch, position, num_positions_);
    return epoch_at(epoch)->index_at(position);
}

std::uint64_t Order::position_of(std::uint64_t epoch, std::uint64_t index) const {
    require_below(index, num_samples_, "index");
    return checked_epoch(epoch)->position_of(index);
}

void Order::fill(std::uint64_t epoch, std::uint64_t first, std::span<std::int64_t> out,
                 std::size_t num_threads) const {
    require_range(first, out.size(), num_positions_);
    if (num_threads == 0) {
        throw Error(ErrorKind::kArgument, "num_threads must be at least 1, got num_threads=0");
    }
    const std::shared_ptr<const Epoch> keyed = checked_epoch(epoch);
    num_threads = std::min(num_threads, out.size() / kMinPerThread);
    if (num_threads <= 1) {
        keyed->fill(first, out);
        return;
    }
    in_parallel(out.size(), num_threads, [&](std::size_t begin, std::size_t count) {
        keyed->fill(first + begin, out.subspan(begin, count));
    });
}

void Order::fill_blocks(std::uint64_t epoch, std::uint64_t first, std::uint64_t block,
                        std::uint64_t stride, std::span<std::int64_t> out) const {
    if (block == 0 || stride < block || out.size() % block != 0) {
        throw Error(ErrorKind::kArgument,
                    "block must be at least 1, at most stride and divide len(out), got block=" +
                        std::to_string(block) + ", stride=" + std::to_string(stride) +
                        ", len(out)=" + std::to_string(out.size()));
    }
    const std::uint64_t num_blocks = out.size() / block;
    if (num_blocks == 0) {
        return;
    }
    require_range(first, block, num_positions_);
    if (num_blocks - 1 > (num_positions_ - first - block) / stride) {
        throw Error(ErrorKind::kArgument,
                    "the last block must end by num_positions=" + std::to_string(num_positions_) +
                        ", got first=" + std::to_string(first) +
                        ", stride=" + std::to_string(stride) + ", " + std::to_string(num_blocks) +
                        " blocks of " + std::to_string(block));
    }
    const std::shared_ptr<const Epoch> keyed = checked_epoch(epoch);
    if (stride == block) {
        keyed->fill(first, out);
        return;
    }
    for (std::uint64_t k = 0; k < num_blocks; ++k) {
        keyed->fill(first + k * stride, out.subspan(k * block, block));
    }
}

class Shuffle::ShuffleEpoch final : public Epoch {
public:
    ShuffleEpoch(std::uint64_t num_samples, const PermutationKey& key)
        : permutation_(num_samples, key) {}

    [[nodiscard]] std::uint64_t index_at(std::uint64_t position) const override {
        return permutation_.index_at(position);
    }
    [[nodiscard]] std::uint64_t position_of(std::uint64_t index) const override {
        return permutation_.position_of(index);
    }
    void fill(std::uint64_t first, std::span<std::int64_t> out) const override {
        permutation_.fill(first, out);
    }

private:
    Permutation permutation_;
};

Shuffle::Shuffle(std::uint64_t num_samples, std::uint64_t seed)
    : Order(num_samples, num_samples), seed_(seed) {}

std::shared_ptr<const Order::Epoch> Shuffle::epoch_at(std::uint64_t epoch) const {
    return epochs_.get(epoch, [&] {
        const PermutationKey key{
            .seed = seed_, .epoch = epoch, .order_id = static_cast<std::uint64_t>(kId)};
        return std::make_shared<const ShuffleEpoch>(num_samples(), key);
    });
}

class Sequential::SequentialEpoch final : public Epoch {
public:
    [[nodiscard]] std::uint64_t index_at(std::uint64_t position) const override { return position; }
    [[nodiscard]] std::uint64_t position_of(std::uint64_t index) const override { return index; }
    void fill(std::uint64_t first, std::span<std::int64_t> out) const override {
        std::iota(out.begin(), out.end(), static_cast<std::int64_t>(first));
    }
};

Sequential::Sequential(std::uint64_t num_samples)
    : Order(num_samples, num_samples), only_(std::make_shared<const SequentialEpoch>()) {}

std::shared_ptr<const Order::Epoch> Sequential::epoch_at(std::uint64_t /*epoch*/) const {
    return only_;
}

}  // namespace datacursor
