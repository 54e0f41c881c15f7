// The recipe of an encoder as one block of bytes: named arrays, checked while they are read.
// Knows nothing of what the arrays mean; who asks for one says its type, and a wrong one is an error, not a crash.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace trimbed::encode {

struct RecipeError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

inline void require(bool condition, const std::string& what) {
    if (!condition) throw RecipeError("encoder recipe: " + what);
}

// Layout, little endian: "TBENC001", u64 number of arrays, then for each: u64 length of its name, u64 element size,
// u64 number of elements, the name, the elements; name and elements are each padded with zeros to eight bytes.
class Recipe {
public:
    explicit Recipe(std::string_view bytes) {
        std::size_t at = 0;
        auto take = [&](std::size_t size) {
            require(size <= bytes.size() - at, "it ends early");
            const char* here = bytes.data() + at;
            at += size;
            return here;
        };
        auto word = [&] {
            std::uint64_t value;
            std::memcpy(&value, take(8), 8);
            return value;
        };
        auto padded = [](std::uint64_t size) { return (size + 7) & ~std::uint64_t{7}; };
        require(bytes.size() >= 16 && bytes.substr(0, 8) == "TBENC001", "it doesn't begin as one");
        take(8);
        const std::uint64_t count = word();
        require(count <= 100000, "it has too many arrays");
        for (std::uint64_t i = 0; i < count; ++i) {
            const std::uint64_t name_size = word(), element = word(), elements = word();
            require(name_size <= 256, "an array's name is too long");
            require(element == 1 || element == 4 || element == 8, "an array's element size is wrong");
            require(elements <= bytes.size() / element, "an array is longer than the recipe");
            std::string name(take(padded(name_size)), name_size);
            const char* data = take(padded(elements * element));
            require(arrays_.emplace(name, Array{data, element, elements}).second, "array " + name + " comes twice");
        }
    }

    bool has(const std::string& name) const { return arrays_.count(name) != 0; }

    // A copy, so that alignment and lifetime are nobody's worry.
    template <class T>
    std::vector<T> array(const std::string& name) const {
        const auto found = arrays_.find(name);
        require(found != arrays_.end(), "array " + name + " is missing");
        require(found->second.element == sizeof(T), "array " + name + " has the wrong type");
        std::vector<T> out(found->second.elements);
        if (!out.empty()) std::memcpy(out.data(), found->second.data, out.size() * sizeof(T));
        return out;
    }

    std::uint32_t number(const std::string& name) const {
        const auto values = array<std::uint32_t>(name);
        require(values.size() == 1, name + " is not one number");
        return values[0];
    }

    // Ids of tokens: each below vocab_size.
    std::vector<std::uint32_t> ids(const std::string& name) const {
        const std::uint32_t vocab_size = number("vocab_size");
        auto values = array<std::uint32_t>(name);
        for (const std::uint32_t id : values) require(id < vocab_size, name + " has an id out of range");
        return values;
    }

private:
    struct Array {
        const char* data;
        std::uint64_t element, elements;
    };
    std::map<std::string, Array> arrays_;
};

// Many strings, end to end: `name`.bytes and `name`.ends (the end of each, ascending).
class Strings {
public:
    Strings() = default;
    Strings(const Recipe& recipe, const std::string& name)
        : bytes_(recipe.array<std::uint8_t>(name + ".bytes")), ends_(recipe.array<std::uint32_t>(name + ".ends")) {
        std::uint32_t last = 0;
        for (const std::uint32_t end : ends_) {
            require(end >= last && end <= bytes_.size(), name + " has ends out of order");
            last = end;
        }
    }
    std::size_t size() const { return ends_.size(); }
    std::string_view operator[](std::size_t i) const {
        const std::size_t begin = i ? ends_[i - 1] : 0;
        return {reinterpret_cast<const char*>(bytes_.data()) + begin, ends_[i] - begin};
    }

private:
    std::vector<std::uint8_t> bytes_;
    std::vector<std::uint32_t> ends_;
};

}  // namespace trimbed::encode
