// Packers of one rule that are kept for the next window.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "datacursor/best_fit.hpp"

namespace datacursor {

// Hands out packers and takes them back: to use a packer's memory again takes half as long as
// to get it from the system for every window. Not thread safe; the packers it handed out are
// apart.
//
// Memory: of kMaxIdle packers, as large as their largest window made them.
class PackerPool {
public:
    static constexpr std::size_t kMaxIdle = 2;  // the window in use and the one packed ahead

    // Throws Error (argument) if rule.check() does.
    explicit PackerPool(const BestFitRule& rule) : rule_(rule) { rule_.check(); }

    std::unique_ptr<BestFitPacker> take() {
        if (idle_.empty()) {
            return std::make_unique<BestFitPacker>(rule_);
        }
        std::unique_ptr<BestFitPacker> packer = std::move(idle_.back());
        idle_.pop_back();
        return packer;
    }

    void give_back(std::unique_ptr<BestFitPacker> packer) {
        if (idle_.size() < kMaxIdle) {
            idle_.push_back(std::move(packer));
        }
    }

private:
    BestFitRule rule_;
    std::vector<std::unique_ptr<BestFitPacker>> idle_;
};

}  // namespace datacursor
