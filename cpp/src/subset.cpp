#include "datacursor/subset.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>

#include "datacursor/error.hpp"

namespace datacursor {

class Subset::SubsetEpoch final : public Epoch {
public:
    SubsetEpoch(const Subset& subset, std::uint64_t epoch) : subset_(subset) {
        if (subset.shuffle_) {
            permutation_.emplace(subset.num_positions(),
                                 PermutationKey{.seed = subset.seed_,
                                                .epoch = epoch,
                                                .order_id = static_cast<std::uint64_t>(kId)});
        }
    }

    [[nodiscard]] std::uint64_t index_at(std::uint64_t position) const override {
        const std::uint64_t place = permutation_ ? permutation_->index_at(position) : position;
        return static_cast<std::uint64_t>(subset_.indices_[place]);
    }

    [[nodiscard]] std::uint64_t position_of(std::uint64_t index) const override {
        const std::uint64_t place = subset_.place_of(index);
        return permutation_ ? permutation_->position_of(place) : place;
    }

    void fill(std::uint64_t first, std::span<std::int64_t> out) const override {
        const std::vector<std::int64_t>& indices = subset_.indices_;
        if (!permutation_) {
            std::copy_n(indices.begin() + static_cast<std::ptrdiff_t>(first), out.size(),
                        out.begin());
            return;
        }
        permutation_->fill(first, out);
        for (std::int64_t& index : out) {
            index = indices[static_cast<std::size_t>(index)];
        }
    }

private:
    const Subset& subset_;
    std::optional<Permutation> permutation_;
};

Subset::Subset(std::span<const std::int64_t> indices, std::uint64_t num_samples, std::uint64_t seed,
               bool shuffle)
    : Order(num_samples, indices.size()),
      seed_(seed),
      shuffle_(shuffle),
      indices_(indices.begin(), indices.end()) {
    for (std::size_t i = 0; i < indices_.size(); ++i) {
        if (indices_[i] < 0 || static_cast<std::uint64_t>(indices_[i]) >= num_samples) {
            throw Error(ErrorKind::kArgument, "indices must be in [0, " +
                                                  std::to_string(num_samples) + "), got indices[" +
                                                  std::to_string(i) +
                                                  "]=" + std::to_string(indices_[i]));
        }
    }
    const auto not_rising = std::adjacent_find(
        indices_.begin(), indices_.end(), [](std::int64_t a, std::int64_t b) { return a >= b; });
    if (not_rising != indices_.end()) {
        sort_places();
    }
}

void Subset::sort_places() {
    places_.resize(indices_.size());
    std::iota(places_.begin(), places_.end(), std::uint64_t{0});
    std::sort(places_.begin(), places_.end(),
              [&](std::uint64_t a, std::uint64_t b) { return indices_[a] < indices_[b]; });
    const auto same = std::adjacent_find(
        places_.begin(), places_.end(),
        [&](std::uint64_t a, std::uint64_t b) { return indices_[a] == indices_[b]; });
    if (same != places_.end()) {
        throw Error(ErrorKind::kArgument,
                    "indices must not repeat, got " + std::to_string(indices_[*same]) + " twice");
    }
}

std::uint64_t Subset::place_of(std::uint64_t index) const {
    const auto wanted = static_cast<std::int64_t>(index);
    const auto refuse = [&]() -> std::uint64_t {
        throw Error(ErrorKind::kArgument,
                    "index must be in the subset, got index=" + std::to_string(index));
    };
    if (places_.empty()) {
        const auto found = std::lower_bound(indices_.begin(), indices_.end(), wanted);
        return found != indices_.end() && *found == wanted
                   ? static_cast<std::uint64_t>(found - indices_.begin())
                   : refuse();
    }
    const auto found = std::lower_bound(
        places_.begin(), places_.end(), wanted,
        [&](std::uint64_t place, std::int64_t value) { return indices_[place] < value; });
    return found != places_.end() && indices_[*found] == wanted ? *found : refuse();
}

std::shared_ptr<const Order::Epoch> Subset::epoch_at(std::uint64_t epoch) const {
    return epochs_.get(epoch, [&] { return std::make_shared<const SubsetEpoch>(*this, epoch); });
}

}  // namespace datacursor
