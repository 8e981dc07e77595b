#include "datacursor/block_shuffle.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "datacursor/error.hpp"
#include "datacursor/philox.hpp"

namespace datacursor {
namespace {

// Up to this many blocks of a window, their places in the data are looked up, not computed.
constexpr std::uint64_t kMaxStarts = 65536;

}  // namespace

class BlockShuffle::BlockShuffleEpoch final : public Epoch {
public:
    BlockShuffleEpoch(const BlockShuffle& order, std::uint64_t epoch)
        : num_samples_(order.num_samples()),
          block_size_(order.block_size_),
          num_blocks_(num_samples_ / block_size_),
          window_size_(order.window_size_),
          key_{.seed = order.seed_, .epoch = epoch, .order_id = static_cast<std::uint64_t>(kId)} {
        if (num_blocks_ > 0) {
            blocks_.emplace(num_blocks_, key_);
        }
    }

    [[nodiscard]] std::uint64_t index_at(std::uint64_t position) const override {
        const auto window = window_at(position / window_size_);
        const std::uint64_t place =
            window->first + window->samples.index_at(position - window->first);
        return block_at(place / block_size_) * block_size_ + place % block_size_;
    }

    [[nodiscard]] std::uint64_t position_of(std::uint64_t index) const override {
        const std::uint64_t block = index / block_size_;
        const std::uint64_t block_place =
            block < num_blocks_ ? blocks_->position_of(block) : num_blocks_;
        const std::uint64_t place = block_place * block_size_ + index % block_size_;
        const auto window = window_at(place / window_size_);
        return window->first + window->samples.position_of(place - window->first);
    }

    void fill(std::uint64_t first, std::span<std::int64_t> out) const override {
        while (!out.empty()) {
            const auto window = window_at(first / window_size_);
            const std::uint64_t begin = first - window->first;
            const std::size_t count = static_cast<std::size_t>(
                std::min<std::uint64_t>(out.size(), window->samples.num_samples() - begin));
            fill_window(*window, begin, out.first(count));
            first += count;
            out = out.subspan(count);
        }
    }

private:
    struct Window {
        std::uint64_t first;               // position, and place among the shuffled blocks
        Permutation samples;               // of its places
        std::vector<std::int64_t> starts;  // first index of each of its blocks, if they are few
    };

    // Return the block at one place of the shuffled blocks; the tail follows them.
    [[nodiscard]] std::uint64_t block_at(std::uint64_t place) const {
        return place < num_blocks_ ? blocks_->index_at(place) : num_blocks_;
    }

    [[nodiscard]] std::shared_ptr<const Window> window_at(std::uint64_t number) const {
        return windows_.get(number, [&] { return make_window(number); });
    }

    [[nodiscard]] std::shared_ptr<const Window> make_window(std::uint64_t number) const {
        const std::uint64_t first = number * window_size_;
        const std::uint64_t size = std::min(window_size_, num_samples_ - first);
        const PermutationKey key = sub_permutation(key_, Purpose::kBlockWindow, number);
        Window window{.first = first, .samples = Permutation(size, key), .starts = {}};
        // window_size_ is a multiple of block_size_ wherever there is a second window.
        const std::uint64_t first_block = first / block_size_;
        const std::uint64_t num_blocks = (size + block_size_ - 1) / block_size_;
        if (num_blocks <= kMaxStarts) {
            window.starts = starts_of(first_block, num_blocks);
        }
        return std::make_shared<const Window>(std::move(window));
    }

    // Return the first index of each block at these places; the tail's place may be the last.
    [[nodiscard]] std::vector<std::int64_t> starts_of(std::uint64_t first,
                                                      std::uint64_t count) const {
        std::vector<std::int64_t> starts(count, static_cast<std::int64_t>(num_blocks_));
        if (blocks_) {
            const std::uint64_t whole = std::min(count, num_blocks_ - first);
            blocks_->fill(first, std::span(starts).first(whole));
        }
        for (std::int64_t& start : starts) {
            start *= static_cast<std::int64_t>(block_size_);
        }
        return starts;
    }

    void fill_window(const Window& window, std::uint64_t begin, std::span<std::int64_t> out) const {
        window.samples.fill(begin, out);
        for (std::int64_t& index : out) {
            const auto place = static_cast<std::uint64_t>(index);
            const std::uint64_t block = place / block_size_;
            const std::uint64_t start =
                window.starts.empty() ? block_at(window.first / block_size_ + block) * block_size_
                                      : static_cast<std::uint64_t>(window.starts[block]);
            index = static_cast<std::int64_t>(start + place % block_size_);
        }
    }

    std::uint64_t num_samples_;
    std::uint64_t block_size_;
    std::uint64_t num_blocks_;  // whole ones
    std::uint64_t window_size_;
    PermutationKey key_;
    std::optional<Permutation> blocks_;
    LastUsed<Window> windows_;
};

BlockShuffle::BlockShuffle(std::uint64_t num_samples, std::uint64_t block_size,
                           std::uint64_t window_blocks, std::uint64_t seed)
    : Order(num_samples, num_samples), seed_(seed), block_size_(block_size) {
    require_size(block_size, "block_size");
    require_size(window_blocks, "window_blocks");
    const WideProduct size = multiply_wide(block_size, window_blocks);
    window_size_ = size.high == 0 ? std::min(size.low, num_samples) : num_samples;
    if ((num_samples - 1) / window_size_ >= kSubPermutationLimit) {
        throw Error(ErrorKind::kArgument,
                    "block_size * window_blocks must make at most 2**55 windows, got "
                    "num_samples=" +
                        std::to_string(num_samples) + ", block_size=" + std::to_string(block_size) +
                        ", window_blocks=" + std::to_string(window_blocks));
    }
}

std::shared_ptr<const Order::Epoch> BlockShuffle::epoch_at(std::uint64_t epoch) const {
    return epochs_.get(epoch,
                       [&] { return std::make_shared<const BlockShuffleEpoch>(*this, epoch); });
}

}  // namespace datacursor
