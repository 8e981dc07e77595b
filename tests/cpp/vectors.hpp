// Reads the golden text files of tests/vectors: lines of words, '#' begins a comment.
#pragma once

#include <cstddef>
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

// The lines of one case, without its first ("case NAME") and its last ("end").
struct Case {
    std::string name;
    std::vector<Words> lines;

    // Return the lines that begin with a keyword.
    [[nodiscard]] std::vector<Words> of(const std::string& keyword) const {
        std::vector<Words> found;
        for (const Words& words : lines) {
            if (words.front() == keyword) {
                found.push_back(words);
            }
        }
        return found;
    }
};

inline std::vector<Case> read_cases(const std::string& name) {
    std::vector<Case> cases;
    for (const Words& words : read_vectors(name)) {
        if (words.front() == "case") {
            cases.push_back({.name = words.at(1), .lines = {}});
        } else if (words.front() != "end") {
            cases.back().lines.push_back(words);
        }
    }
    return cases;
}

inline std::uint64_t decimal(const std::string& word) { return std::stoull(word, nullptr, 10); }

// Return the numbers of a line from one word on.
inline std::vector<std::uint64_t> decimals(const Words& words, std::size_t first) {
    std::vector<std::uint64_t> numbers;
    for (std::size_t i = first; i < words.size(); ++i) {
        numbers.push_back(decimal(words[i]));
    }
    return numbers;
}

inline std::uint64_t hexadecimal(const std::string& word) { return std::stoull(word, nullptr, 16); }

}  // namespace datacursor::tests
