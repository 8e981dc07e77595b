#include "datacursor/mixture.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "datacursor/error.hpp"
#include "datacursor/philox.hpp"

namespace datacursor {
namespace {

std::vector<std::uint64_t> positions_of(const Mixture::Sources& sources) {
    std::vector<std::uint64_t> sizes;
    sizes.reserve(sources.size());
    for (const auto& source : sources) {
        sizes.push_back(source->num_positions());
    }
    return sizes;
}

std::uint64_t samples_of(const Mixture::Sources& sources) {
    std::uint64_t sum = 0;
    for (const auto& source : sources) {
        sum += source->num_samples();
        if (sum >> 63 != 0) {
            throw Error(ErrorKind::kArgument,
                        "the orders of a mixture must have fewer than 2**63 samples together");
        }
    }
    return sum;
}

}  // namespace

class Mixture::MixtureEpoch final : public Epoch {
public:
    MixtureEpoch(const Mixture& mixture, std::uint64_t epoch)
        : mixture_(mixture),
          epoch_(epoch),
          key_{.seed = mixture.seed_, .epoch = epoch, .order_id = static_cast<std::uint64_t>(kId)} {
    }

    [[nodiscard]] MixtureDraw draw_at(std::uint64_t position) const {
        const auto block = block_at(position / size());
        const std::uint64_t place = position % size();
        const std::uint64_t source = block->sources[place];
        std::int64_t index = 0;
        draw(source, first_draw(block->number, source) + block->ranks[place], {&index, 1});
        return {.source = source, .index = static_cast<std::uint64_t>(index)};
    }

    void count_draws(std::uint64_t position, std::span<std::int64_t> counts) const {
        const std::uint64_t number = position / size();
        for (std::size_t source = 0; source < counts.size(); ++source) {
            counts[source] =
                static_cast<std::int64_t>(mixture_.stages_.draws_before(number, source));
        }
        const std::uint64_t rest = position % size();
        if (rest > 0) {
            const auto block = block_at(number);
            for (std::uint64_t place = 0; place < rest; ++place) {
                ++counts[block->sources[place]];
            }
        }
    }

    [[nodiscard]] std::uint64_t index_at(std::uint64_t position) const override {
        const MixtureDraw draw = draw_at(position);
        return mixture_.offsets_[draw.source] + draw.index;
    }

    [[nodiscard]] std::uint64_t position_of(std::uint64_t index) const override {
        throw Error(ErrorKind::kArgument,
                    "a mixture has no position_of: index=" + std::to_string(index) +
                        " may occur many times or never");
    }

    void fill(std::uint64_t first, std::span<std::int64_t> out) const override {
        std::vector<Part> parts(mixture_.sources_.size());
        std::vector<std::int64_t> drawn(std::min<std::size_t>(out.size(), size()));
        while (!out.empty()) {
            const auto block = block_at(first / size());
            const std::uint64_t place = first % size();
            const std::size_t count =
                static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), size() - place));
            fill_part(*block, place, out.first(count), parts, drawn);
            first += count;
            out = out.subspan(count);
        }
    }

private:
    struct Block {
        std::uint64_t number;
        std::vector<std::uint16_t> sources;  // by place in the block
        std::vector<std::uint16_t> ranks;    // of each place among those of its source
    };

    // What a part of a block draws from one source.
    struct Part {
        std::size_t count = 0;
        std::uint64_t rank = 0;        // of the first draw
        std::int64_t* next = nullptr;  // the next draw to hand out
    };

    [[nodiscard]] std::uint64_t size() const { return mixture_.stages_.block(); }

    [[nodiscard]] std::shared_ptr<const Block> block_at(std::uint64_t number) const {
        return blocks_.get(number, [&] { return make_block(number); });
    }

    [[nodiscard]] std::shared_ptr<const Block> make_block(std::uint64_t number) const {
        const Permutation permutation(size(),
                                      sub_permutation(key_, Purpose::kMixtureBlock, number));
        std::vector<std::int64_t> slots(size());
        permutation.fill(0, slots);
        const std::span<const std::uint16_t> source_of = mixture_.stages_.slots(number);
        std::vector<std::uint16_t> seen(mixture_.sources_.size(), 0);
        Block block{.number = number, .sources = {}, .ranks = {}};
        block.sources.reserve(slots.size());
        block.ranks.reserve(slots.size());
        for (const std::int64_t slot : slots) {
            const std::uint16_t source = source_of[static_cast<std::size_t>(slot)];
            block.sources.push_back(source);
            block.ranks.push_back(seen[source]++);
        }
        return std::make_shared<const Block>(std::move(block));
    }

    // Fill out with the positions from one place of a block on.
    void fill_part(const Block& block, std::uint64_t place, std::span<std::int64_t> out,
                   std::vector<Part>& parts, std::vector<std::int64_t>& drawn) const {
        for (std::size_t i = 0; i < out.size(); ++i) {
            Part& part = parts[block.sources[place + i]];
            part.rank = part.count == 0 ? block.ranks[place + i] : part.rank;
            ++part.count;
        }
        std::int64_t* next = drawn.data();
        for (std::size_t source = 0; source < parts.size(); ++source) {
            Part& part = parts[source];
            const std::span<std::int64_t> room(next, part.count);
            if (part.count > 0) {
                draw(source, first_draw(block.number, source) + part.rank, room);
            }
            part.next = next;
            next += part.count;
            part.count = 0;
        }
        for (std::size_t i = 0; i < out.size(); ++i) {
            const std::uint16_t source = block.sources[place + i];
            out[i] = static_cast<std::int64_t>(mixture_.offsets_[source]) + *parts[source].next++;
        }
    }

    // Return the number, over all epochs, of a source's first draw in a block.
    [[nodiscard]] std::uint64_t first_draw(std::uint64_t number, std::size_t source) const {
        const MixtureStages& stages = mixture_.stages_;
        const std::uint64_t num_blocks = mixture_.num_positions() / size();
        const WideProduct before = multiply_wide(epoch_, stages.draws_before(num_blocks, source));
        if (before.high != 0 || before.low >> 62 != 0) {
            throw Error(ErrorKind::kArgument,
                        "epoch must be one in which fewer than 2**62 samples were drawn from "
                        "an order before, got epoch=" +
                            std::to_string(epoch_));
        }
        return before.low + stages.draws_before(number, source);
    }

    // Write consecutive draws of one source, over the ends of its epochs.
    void draw(std::size_t source, std::uint64_t number, std::span<std::int64_t> out) const {
        const Order& order = *mixture_.sources_[source];
        while (!out.empty()) {
            const std::uint64_t position = number % order.num_positions();
            const std::uint64_t epoch = number / order.num_positions();
            if (epoch >= kEpochLimit) {
                throw Error(ErrorKind::kArgument,
                            "position must be one before epoch 2**40 of every order drawn from, "
                            "got epoch " +
                                std::to_string(epoch) + " of orders[" + std::to_string(source) +
                                "]");
            }
            const std::size_t count = static_cast<std::size_t>(
                std::min<std::uint64_t>(out.size(), order.num_positions() - position));
            order.fill(epoch, position, out.first(count));
            number += count;
            out = out.subspan(count);
        }
    }

    const Mixture& mixture_;
    std::uint64_t epoch_;
    PermutationKey key_;
    LastUsed<Block> blocks_;
};

Mixture::Mixture(Sources sources, std::vector<MixtureStage> stages, std::uint64_t block,
                 Stopping stopping, std::uint64_t seed)
    : Mixture(sources, MixtureStages(positions_of(sources), std::move(stages), block, stopping),
              seed) {}

Mixture::Mixture(Sources sources, MixtureStages stages, std::uint64_t seed)
    : Order(samples_of(sources), stages.num_positions()),
      sources_(std::move(sources)),
      stages_(std::move(stages)),
      seed_(seed) {
    std::uint64_t offset = 0;
    for (const auto& source : sources_) {
        offsets_.push_back(offset);
        offset += source->num_samples();
    }
}

MixtureDraw Mixture::draw_at(std::uint64_t epoch, std::uint64_t position) const {
    require_place(epoch, position, num_positions());
    return mixture_epoch(epoch)->draw_at(position);
}

void Mixture::count_draws(std::uint64_t epoch, std::uint64_t position,
                          std::span<std::int64_t> counts) const {
    require_place(epoch, position, num_positions() + 1);
    if (counts.size() != sources_.size()) {
        throw Error(ErrorKind::kArgument, "counts must hold one number for each of " +
                                              std::to_string(sources_.size()) + " orders, got " +
                                              std::to_string(counts.size()));
    }
    mixture_epoch(epoch)->count_draws(position, counts);
}

std::shared_ptr<const Mixture::MixtureEpoch> Mixture::mixture_epoch(std::uint64_t epoch) const {
    return epochs_.get(epoch, [&] { return std::make_shared<const MixtureEpoch>(*this, epoch); });
}

std::shared_ptr<const Order::Epoch> Mixture::epoch_at(std::uint64_t epoch) const {
    return mixture_epoch(epoch);
}

}  // namespace datacursor
