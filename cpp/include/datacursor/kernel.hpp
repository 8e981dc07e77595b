// Which vector code computes the permutations and copies tokens.
//
// Every kernel gives the same indices; they differ in speed. The fastest one that this
// processor runs is taken, unless the environment variable DATACURSOR_KERNEL names another
// (tests use it). It is read once, by the first Permutation or the first kernel_name().
#pragma once

#include <string>
#include <vector>

namespace datacursor {

// Return the names of the kernels this processor runs, the fastest first.
std::vector<std::string> kernel_names();

// Return the name of the kernel in use. Throws Error{kArgument} if DATACURSOR_KERNEL is
// set, not empty and none of kernel_names().
std::string kernel_name();

}  // namespace datacursor
