#include "datacursor/mixture_stages.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "datacursor/error.hpp"
#include "datacursor/permutation.hpp"

namespace datacursor {
namespace {

constexpr std::uint64_t kMaxPositions = std::uint64_t{1} << 62;

[[noreturn]] void refuse(const std::string& message) { throw Error(ErrorKind::kArgument, message); }

std::string numbered(const char* name, std::size_t number) {
    return std::string(name) + "[" + std::to_string(number) + "]";
}

}  // namespace

MixtureStages::MixtureStages(std::span<const std::uint64_t> sizes, std::vector<MixtureStage> stages,
                             std::uint64_t block, Stopping stopping)
    : block_(block) {
    if (block == 0 || block > kMaxMixtureBlock) {
        refuse("block must be in [1, " + std::to_string(kMaxMixtureBlock) +
               "], got block=" + std::to_string(block));
    }
    if (sizes.empty() || sizes.size() > kMaxMixtureSources) {
        refuse("a mixture must have 1 to " + std::to_string(kMaxMixtureSources) + " orders, got " +
               std::to_string(sizes.size()));
    }
    if (stages.empty() || stages[0].first != 0) {
        refuse("the first stage must begin at position 0");
    }
    for (MixtureStage& stage : stages) {
        add_stage(std::move(stage), sizes.size());
    }
    num_blocks_ = count_blocks(sizes, stopping);
}

void MixtureStages::add_stage(MixtureStage stage, std::size_t num_sources) {
    const std::string name = numbered("stages", stages_.size());
    if (stage.first % block_ != 0 || stage.first >= kMaxPositions ||
        (!stages_.empty() && stage.first / block_ <= stages_.back().first_block)) {
        refuse(name + " must begin behind the stage before it, at a multiple of block=" +
               std::to_string(block_) + ", got position " + std::to_string(stage.first));
    }
    const std::vector<std::uint64_t>& quotas = stage.quotas;
    const bool is_below =
        std::all_of(quotas.begin(), quotas.end(), [&](std::uint64_t q) { return q <= block_; });
    if (quotas.size() != num_sources || !is_below ||
        std::accumulate(quotas.begin(), quotas.end(), std::uint64_t{0}) != block_) {
        refuse(name + " must have " + std::to_string(num_sources) +
               " quotas that add up to block=" + std::to_string(block_));
    }
    std::vector<std::uint64_t> before(num_sources, 0);
    if (!stages_.empty()) {
        const std::uint64_t first_block = stage.first / block_;
        for (std::size_t source = 0; source < num_sources; ++source) {
            before[source] = draws_before(first_block, source);
        }
    }
    std::vector<std::uint16_t> slots;
    slots.reserve(block_);
    for (std::size_t source = 0; source < num_sources; ++source) {
        slots.insert(slots.end(), quotas[source], static_cast<std::uint16_t>(source));
    }
    stages_.push_back({.first_block = stage.first / block_,
                       .quotas = std::move(stage.quotas),
                       .before = std::move(before),
                       .slots = std::move(slots)});
}

// Return the number of blocks of a stage; the last one's is without limit.
std::uint64_t MixtureStages::stage_blocks(std::size_t number) const {
    return number + 1 == stages_.size()
               ? kMaxPositions
               : stages_[number + 1].first_block - stages_[number].first_block;
}

std::uint64_t MixtureStages::count_blocks(std::span<const std::uint64_t> sizes,
                                          Stopping stopping) const {
    const std::uint64_t most = std::min(kMaxPositions / block_, kSubPermutationLimit);
    std::uint64_t num_blocks = most;
    for (std::size_t number = 0; stopping != Stopping::kForever; ++number) {
        // Whole blocks of this stage until a source is exhausted: the first or the last one.
        const Stage& stage = stages_[number];
        std::uint64_t fewest = stage_blocks(number);
        std::uint64_t needed = 0;
        for (std::size_t source = 0; source < sizes.size(); ++source) {
            const std::uint64_t quota = stage.quotas[source];
            const std::uint64_t size = sizes[source];
            const std::uint64_t left =
                size > stage.before[source] ? size - stage.before[source] : 0;
            if (quota > 0) {
                fewest = std::min(fewest, left / quota);
                needed = std::max(needed, left / quota + (left % quota > 0 ? 1 : 0));
            } else if (left > 0) {
                needed = kMaxPositions;
            }
        }
        const bool is_first = stopping == Stopping::kFirstExhausted;
        const std::uint64_t blocks = is_first ? fewest : needed;
        const std::uint64_t length = stage_blocks(number);
        if (blocks < length || (!is_first && blocks == length)) {
            num_blocks = stage.first_block + blocks;
            break;
        }
        if (number + 1 == stages_.size()) {
            break;
        }
    }
    if (num_blocks == 0) {
        refuse("stopping='first_exhausted' leaves no whole block of " + std::to_string(block_) +
               " positions: an order holds less than its quota; use a smaller block");
    }
    if (num_blocks >= most && stopping != Stopping::kForever) {
        refuse(
            "the epoch never ends: an order is not exhausted, or not within 2**62 positions; "
            "give it a weight above 0, or use stopping='forever'");
    }
    return num_blocks;
}

const MixtureStages::Stage& MixtureStages::stage_of(std::uint64_t block_number) const {
    const auto behind = std::upper_bound(
        stages_.begin(), stages_.end(), block_number,
        [](std::uint64_t number, const Stage& stage) { return number < stage.first_block; });
    return *(behind - 1);
}

std::uint64_t MixtureStages::draws_before(std::uint64_t block_number, std::size_t source) const {
    const Stage& stage = stage_of(block_number);
    return stage.before[source] + (block_number - stage.first_block) * stage.quotas[source];
}

std::span<const std::uint16_t> MixtureStages::slots(std::uint64_t block_number) const {
    return stage_of(block_number).slots;
}

}  // namespace datacursor
