// Orders: (epoch, position) -> index, pure and O(1).
//
// An order is immutable to its users and safe to share between threads. A
// released order is never changed, only joined by a new one under a new id.
// Every public function checks its arguments and throws Error{kArgument}.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "datacursor/permutation.hpp"

namespace datacursor {

// Order ids, part of the persistent format; add, never change.
enum class OrderId : std::uint16_t {
    kShuffle = 1,
    kSequential = 2,
};

inline constexpr std::uint64_t kEpochLimit = std::uint64_t{1} << 40;

class Order {
public:
    // Requires: 1 <= num_samples < 2^63.
    explicit Order(std::uint64_t num_samples);
    virtual ~Order() = default;
    Order(const Order&) = delete;
    Order& operator=(const Order&) = delete;

    [[nodiscard]] std::uint64_t num_samples() const noexcept { return num_samples_; }

    // Return the index at one position. Requires: epoch < kEpochLimit, position < num_samples.
    [[nodiscard]] std::uint64_t index_at(std::uint64_t epoch, std::uint64_t position) const;

    // Return the position of one index: the inverse. Requires: index < num_samples.
    [[nodiscard]] std::uint64_t position_of(std::uint64_t epoch, std::uint64_t index) const;

    // Write the indices at positions [first, first + out.size()).
    // Requires: first + out.size() <= num_samples.
    void fill(std::uint64_t epoch, std::uint64_t first, std::span<std::int64_t> out) const;

    // Write out.size() / block blocks; block k holds the indices at positions
    // [first + k * stride, first + k * stride + block): what one rank issues.
    // Requires: block >= 1, stride >= block, block divides out.size(), no position
    // reaches num_samples.
    void fill_blocks(std::uint64_t epoch, std::uint64_t first, std::uint64_t block,
                     std::uint64_t stride, std::span<std::int64_t> out) const;

protected:
    // One epoch of the order. Arguments are checked already.
    class Epoch {
    public:
        virtual ~Epoch() = default;
        [[nodiscard]] virtual std::uint64_t index_at(std::uint64_t position) const = 0;
        [[nodiscard]] virtual std::uint64_t position_of(std::uint64_t index) const = 0;
        virtual void fill(std::uint64_t first, std::span<std::int64_t> out) const = 0;
    };
    [[nodiscard]] virtual std::shared_ptr<const Epoch> epoch_at(std::uint64_t epoch) const = 0;

private:
    [[nodiscard]] std::shared_ptr<const Epoch> checked_epoch(std::uint64_t epoch) const;

    std::uint64_t num_samples_;
};

// shuffle-1 (permutation.hpp), a new permutation each epoch. Keeps the keys (or, for
// n <= 4096, the table) of the epoch used last.
class Shuffle final : public Order {
public:
    static constexpr OrderId kId = OrderId::kShuffle;

    Shuffle(std::uint64_t num_samples, std::uint64_t seed);

private:
    class ShuffleEpoch;

    [[nodiscard]] std::shared_ptr<const Epoch> epoch_at(std::uint64_t epoch) const override;

    std::uint64_t seed_;
    mutable std::mutex mutex_;
    mutable std::uint64_t cached_epoch_ = 0;
    mutable std::shared_ptr<const Epoch> cached_;
};

// sequential-1: index == position in every epoch.
class Sequential final : public Order {
public:
    static constexpr OrderId kId = OrderId::kSequential;

    explicit Sequential(std::uint64_t num_samples);

private:
    class SequentialEpoch;

    [[nodiscard]] std::shared_ptr<const Epoch> epoch_at(std::uint64_t epoch) const override;

    std::shared_ptr<const Epoch> only_;
};

}  // namespace datacursor
