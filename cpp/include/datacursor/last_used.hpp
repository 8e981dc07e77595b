// A cache of one: the value that was made last, by its number.
//
// Thread safe. A value is made outside the lock, so that threads which need
// different values do not wait for each other; a value in use outlives its place
// in the cache.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

namespace datacursor {

template <class Value>
class LastUsed {
public:
    // Return the value of this number, by make() unless it is the one made last.
    template <class Make>
    [[nodiscard]] std::shared_ptr<const Value> get(std::uint64_t number, Make make) const {
        {
            const std::scoped_lock lock(mutex_);
            if (value_ != nullptr && number_ == number) {
                return value_;
            }
        }
        std::shared_ptr<const Value> made = make();
        const std::scoped_lock lock(mutex_);
        number_ = number;
        value_ = made;
        return made;
    }

private:
    mutable std::mutex mutex_;
    mutable std::uint64_t number_ = 0;
    mutable std::shared_ptr<const Value> value_;
};

}  // namespace datacursor
