// The exact arithmetic of a mixture: quotas of a block by stage, and where an epoch ends.
//
// Immutable; knows numbers of positions, not orders (mixture.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace datacursor {

inline constexpr std::uint64_t kMaxMixtureBlock = std::uint64_t{1} << 16;
inline constexpr std::size_t kMaxMixtureSources = std::size_t{1} << 16;

// Where an epoch ends, in whole blocks.
enum class Stopping {
    kFirstExhausted,  // before a block that would draw more from a source than it holds
    kAllExhausted,    // after the block in which every source has given all it holds
    kForever,         // after 2^62 positions or 2^55 blocks
};

// The quotas from one position of every epoch on.
struct MixtureStage {
    std::uint64_t first = 0;            // position, a multiple of the block
    std::vector<std::uint64_t> quotas;  // slots of a block by source
};

class MixtureStages {
public:
    // Requires: 1 <= block <= kMaxMixtureBlock; 1 to kMaxMixtureSources sizes, all >= 1;
    // stages rise from 0; each has a quota for every source, which add up to block.
    // Memory: 2 bytes a slot and 16 a source for each stage.
    MixtureStages(std::span<const std::uint64_t> sizes, std::vector<MixtureStage> stages,
                  std::uint64_t block, Stopping stopping);

    [[nodiscard]] std::uint64_t block() const noexcept { return block_; }
    [[nodiscard]] std::size_t num_sources() const noexcept { return stages_[0].quotas.size(); }
    [[nodiscard]] std::uint64_t num_positions() const noexcept { return num_blocks_ * block_; }

    // Return the draws of one source in the blocks before this one. Requires: number of a
    // block of the epoch, or of the one after it.
    [[nodiscard]] std::uint64_t draws_before(std::uint64_t block_number, std::size_t source) const;

    // Return the source that owns each slot of this block.
    [[nodiscard]] std::span<const std::uint16_t> slots(std::uint64_t block_number) const;

private:
    struct Stage {
        std::uint64_t first_block;
        std::vector<std::uint64_t> quotas;
        std::vector<std::uint64_t> before;  // draws of each source before the stage
        std::vector<std::uint16_t> slots;   // the source that owns each
    };

    void add_stage(MixtureStage stage, std::size_t num_sources);
    [[nodiscard]] std::uint64_t count_blocks(std::span<const std::uint64_t> sizes,
                                             Stopping stopping) const;
    [[nodiscard]] std::uint64_t stage_blocks(std::size_t number) const;
    [[nodiscard]] const Stage& stage_of(std::uint64_t block_number) const;

    std::uint64_t block_;
    std::vector<Stage> stages_;
    std::uint64_t num_blocks_;
};

}  // namespace datacursor
