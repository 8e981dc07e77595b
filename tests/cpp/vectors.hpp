// Reads the golden text files of tests/vectors: lines of words, '#' begins a comment.
#pragma once

#include <cstdint>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace datacursor::tests {

using Words = std::vector<std::string>;

inline std::vector<Words> read_vectors(const std::string& name) {
    std::ifstream file(DATACURSOR_VECTORS "/" + name);
    std::vector<Words> lines;
    for (std::string line; std::getline(file, line);) {
        std::istringstream stream(line);
        Words words;
        for (std::string word; stream >> word;) {
            words.push_back(word);
        }
        if (!words.empty() && words.front().front() != '#') {
            lines.push_back(words);
        }
    }
    if (lines.empty()) {
        throw std::runtime_error("no vectors in " + name);
    }
    return lines;
}

inline std::uint64_t decimal(const std::string& word) { return std::stoull(word, nullptr, 10); }
inline std::uint64_t hexadecimal(const std::string& word) { return std::stoull(word, nullptr, 16); }

}  // namespace datacursor::tests
