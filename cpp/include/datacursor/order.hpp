// Orders: (epoch, position) -> index, pure and O(1).
//
// An order is immutable to its users and safe to share between threads. A
// released order is never changed, only joined by a new one under a new id.
// Every public function checks its arguments and throws Error{kArgument}.
//
// An epoch has num_positions positions, each holds an index below num_samples. A
// permutation has as many positions as samples and holds each once; a subset
// leaves some out, a mixture or weighted order repeats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "datacursor/last_used.hpp"
#include "datacursor/permutation.hpp"

namespace datacursor {

// Order ids, part of the persistent format; add, never change.
enum class OrderId : std::uint16_t {
    kShuffle = 1,
    kSequential = 2,
    kBlockShuffle = 3,
    kMixture = 4,
    kWeighted = 5,
    kSubset = 6,
};

inline constexpr std::uint64_t kEpochLimit = std::uint64_t{1} << 40;

class Order {
public:
    // Requires: 1 <= num_samples < 2^63, 1 <= num_positions < 2^63.
    Order(std::uint64_t num_samples, std::uint64_t num_positions);
    virtual ~Order() = default;
    Order(const Order&) = delete;
    Order& operator=(const Order&) = delete;

    [[nodiscard]] std::uint64_t num_samples() const noexcept { return num_samples_; }

    // The same in every epoch.
    [[nodiscard]] std::uint64_t num_positions() const noexcept { return num_positions_; }

    // Return the index at one position. Requires: epoch < kEpochLimit, position < num_positions.
    [[nodiscard]] std::uint64_t index_at(std::uint64_t epoch, std::uint64_t position) const;

    // Return the position of one index: the inverse. Requires: index < num_samples, and an order
    // that holds this index exactly once.
    [[nodiscard]] std::uint64_t position_of(std::uint64_t epoch, std::uint64_t index) const;

    // Write the indices at positions [first, first + out.size()), shared out among up to
    // num_threads threads where there are enough of them to be worth it.
    // Requires: first + out.size() <= num_positions, num_threads >= 1.
    void fill(std::uint64_t epoch, std::uint64_t first, std::span<std::int64_t> out,
              std::size_t num_threads = 1) const;

    // Write out.size() / block blocks; block k holds the indices at positions
    // [first + k * stride, first + k * stride + block): what one rank issues.
    // Requires: block >= 1, stride >= block, block divides out.size(), no position
    // reaches num_positions.
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

    // Throw unless value lies in [1, 2^63).
    static void require_size(std::uint64_t value, const char* name);

    // Throw unless epoch < kEpochLimit and position < limit.
    static void require_place(std::uint64_t epoch, std::uint64_t position, std::uint64_t limit);

private:
    [[nodiscard]] std::shared_ptr<const Epoch> checked_epoch(std::uint64_t epoch) const;

    std::uint64_t num_samples_;
    std::uint64_t num_positions_;
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
    LastUsed<ShuffleEpoch> epochs_;
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
