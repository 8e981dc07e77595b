// A cache of one: the value that was made last, by its number.
//
// Thread safe. A value is made outside the lock, so that threads which need
// different values do not wait for each other; a value in use outlives its place
// in the cache. A lock that stays taken, as in a process that was forked while a
// thread held it, only costs the cache: values are made anew.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace datacursor {

template <class Value>
class LastUsed {
public:
    // Return the value of this number, by make() unless it is the one made last.
    template <class Make>
    [[nodiscard]] std::shared_ptr<const Value> get(std::uint64_t number, Make make) const {
        {
            const auto lock = lock_soon();
            if (lock && value_ != nullptr && number_ == number) {
                return value_;
            }
        }
        std::shared_ptr<const Value> made = make();
        const auto lock = lock_soon();
        if (lock) {
            number_ = number;
            value_ = made;
        }
        return made;
    }

private:
    // Return the lock, or none where others hold it for much longer than they need it.
    [[nodiscard]] std::unique_lock<std::mutex> lock_soon() const {
        std::unique_lock lock(mutex_, std::try_to_lock);
        for (int tries = 1; !lock && tries < kTries; ++tries) {
            std::this_thread::yield();
            lock.try_lock();
        }
        return lock;
    }

    static constexpr int kTries = 32;

    mutable std::mutex mutex_;
    mutable std::uint64_t number_ = 0;
    mutable std::shared_ptr<const Value> value_;
};

}  // namespace datacursor
