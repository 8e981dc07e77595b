#include "datacursor/order.hpp"

#include <numeric>
#include <string>
#include <utility>

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

void require_range(std::uint64_t first, std::uint64_t count, std::uint64_t num_samples) {
    if (count > num_samples || first > num_samples - count) {
        throw Error(ErrorKind::kArgument,
                    "first + count must be at most num_samples=" + std::to_string(num_samples) +
                        ", got first=" + std::to_string(first) +
                        ", count=" + std::to_string(count));
    }
}

}  // namespace

Order::Order(std::uint64_t num_samples) : num_samples_(num_samples) {
    if (num_samples == 0 || num_samples >> 63 != 0) {
        throw Error(ErrorKind::kArgument, "num_samples must be in [1, 2**63), got num_samples=" +
                                              std::to_string(num_samples));
    }
}

std::shared_ptr<const Order::Epoch> Order::checked_epoch(std::uint64_t epoch) const {
    require_below(epoch, kEpochLimit, "epoch");
    return epoch_at(epoch);
}

std::uint64_t Order::index_at(std::uint64_t epoch, std::uint64_t position) const {
    require_below(position, num_samples_, "position");
    return checked_epoch(epoch)->index_at(position);
}

std::uint64_t Order::position_of(std::uint64_t epoch, std::uint64_t index) const {
    require_below(index, num_samples_, "index");
    return checked_epoch(epoch)->position_of(index);
}

void Order::fill(std::uint64_t epoch, std::uint64_t first, std::span<std::int64_t> out) const {
    require_range(first, out.size(), num_samples_);
    checked_epoch(epoch)->fill(first, out);
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
    require_range(first, block, num_samples_);
    if (num_blocks - 1 > (num_samples_ - first - block) / stride) {
        throw Error(ErrorKind::kArgument,
                    "the last block must end by num_samples=" + std::to_string(num_samples_) +
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

Shuffle::Shuffle(std::uint64_t num_samples, std::uint64_t seed) : Order(num_samples), seed_(seed) {}

std::shared_ptr<const Order::Epoch> Shuffle::epoch_at(std::uint64_t epoch) const {
    const std::scoped_lock lock(mutex_);
    if (cached_ == nullptr || cached_epoch_ != epoch) {
        const PermutationKey key{
            .seed = seed_, .epoch = epoch, .order_id = static_cast<std::uint64_t>(kId)};
        cached_ = std::make_shared<const ShuffleEpoch>(num_samples(), key);
        cached_epoch_ = epoch;
    }
    return cached_;
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
    : Order(num_samples), only_(std::make_shared<const SequentialEpoch>()) {}

std::shared_ptr<const Order::Epoch> Sequential::epoch_at(std::uint64_t /*epoch*/) const {
    return only_;
}

}  // namespace datacursor
