#define BOOST_TEST_MODULE datacursor
#include <boost/test/included/unit_test.hpp>
