// The cache of one, where its lock stays taken.
#include "datacursor/last_used.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <utility>

using namespace datacursor;

namespace {

// Calls a function while the cache that drops it holds its lock.
struct Dropped {
    int number;
    std::function<void()> when_dropped;

    Dropped(int value, std::function<void()> function)
        : number(value), when_dropped(std::move(function)) {}
    Dropped(const Dropped&) = delete;
    Dropped& operator=(const Dropped&) = delete;
    ~Dropped() {
        if (when_dropped) {
            when_dropped();
        }
    }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(last_used)

BOOST_AUTO_TEST_CASE(a_lock_that_stays_taken_costs_the_cache_alone) {
    LastUsed<Dropped> cache;
    const auto make = [](int number) {
        return [number] { return std::make_shared<const Dropped>(number, nullptr); };
    };
    std::future<int> other;
    bool has_answer = false;
    const auto ask_from_a_thread = [&] {
        other = std::async(std::launch::async, [&] { return cache.get(2, make(20))->number; });
        has_answer = other.wait_for(std::chrono::seconds(30)) == std::future_status::ready;
    };
    static_cast<void>(
        cache.get(0, [&] { return std::make_shared<const Dropped>(0, ask_from_a_thread); }));
    BOOST_TEST(cache.get(1, make(10))->number == 10);
    BOOST_TEST(has_answer);
    BOOST_TEST(other.get() == 20);
    BOOST_TEST(cache.get(1, make(11))->number == 10);
}

BOOST_AUTO_TEST_SUITE_END()
