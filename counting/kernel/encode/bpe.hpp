// Byte pair encoding of pre-tokens: from text to the symbols that are merged. Knows no normalizer and no pre-tokenizer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "merge.hpp"
#include "strings.hpp"
#include "unicode.hpp"

namespace trimbed::encode {

class Bpe {
public:
    static constexpr std::uint32_t kNone = 0xFFFFFFFFu;

    Bpe() = default;
    explicit Bpe(const Recipe& recipe) {
        const std::uint32_t flags = recipe.number("bpe.flags");
        bytes_ = flags & 1;  // a symbol is a byte, not a code point
        fuse_ = flags & 2;
        fallback_ = flags & 4;
        whole_ = flags & 8;  // ignore_merges
        const std::uint32_t unknown = recipe.number("bpe.unknown");
        unknown_ = unknown;  // kNone: no unk token, such characters are dropped; kMissing: an error of the library's
        byte_ids_ = recipe.array<std::uint32_t>("bpe.bytes");
        require(byte_ids_.size() == 256, "bpe.bytes has a wrong length");
        if (!bytes_) {
            // first and not last, neither, last and not first, both: which spelling of a character the word asks for
            for (int i = 0; i < 4; ++i)
                characters_[i] = CodePointTable<std::uint32_t>(recipe, "bpe.characters." + std::to_string(i));
            const std::uint32_t vocab_size = recipe.number("vocab_size");
            for (const auto& table : characters_)
                for (const std::uint32_t id : table.values())
                    require(id == kNone || id < vocab_size, "a character's id is out of range");
            prefix_ = recipe.array<std::uint8_t>("bpe.prefix");
            suffix_ = recipe.array<std::uint8_t>("bpe.suffix");
        }
        if (whole_) words_ = StringTable(Strings(recipe, "bpe.words"), recipe.ids("bpe.word_ids"));
        const std::uint32_t vocab = recipe.number("vocab_size");
        for (const std::uint32_t id : byte_ids_) require(id < vocab || id == kNone, "a byte's id is out of range");
        require(unknown_ < vocab || unknown_ >= kMissing, "the unknown token's id is out of range");
        merger_ = Merger(recipe, bytes_ ? byte_ids_ : std::vector<std::uint32_t>());
    }

    // Words are collected, then encoded together: while one waits for memory, the others go on.
    void clear() { merger_.clear(); }
    std::size_t words() const { return merger_.words(); }

    // Adds a pre-token that isn't empty; false, with nothing added, where the library would raise an error.
    bool add(std::string_view word) {
        std::vector<std::uint32_t>& symbols = merger_.symbols();
        const std::size_t begin = symbols.size();
        if (whole_) {
            const std::uint32_t id = words_.find(word);
            if (id != StringTable::kNone) {
                symbols.push_back(id);
                merger_.keep(begin);
                return true;
            }
        }
        if (bytes_ && one_for_each(word, symbols)) {
            merger_.add(begin, word);
            return true;
        }
        if (!(bytes_ ? byte_symbols(word, symbols) : character_symbols(word, symbols))) {
            symbols.resize(begin);
            return false;
        }
        merger_.add(begin);
        return true;
    }

    void run() { merger_.run(); }
    // Appends the ids of the word of that number.
    void append(std::size_t number, std::vector<std::uint32_t>& out) const { merger_.append(number, out); }

private:
    static constexpr std::uint32_t kMissing = 0xFFFFFFFEu;

    // Symbols for bytes that all have one; else none.
    bool one_for_each(std::string_view word, std::vector<std::uint32_t>& symbols) const {
        const std::size_t begin = symbols.size();
        symbols.resize(begin + word.size());
        std::uint32_t* to = symbols.data() + begin;
        bool all = true;
        for (const char c : word) {
            const std::uint32_t id = byte_ids_[static_cast<std::uint8_t>(c)];
            all &= id != kNone;
            *to++ = id;
        }
        if (!all) symbols.resize(begin);
        return all;
    }

    bool unknown_symbol(bool& pending, std::vector<std::uint32_t>& symbols) {
        if (unknown_ == kNone) return true;
        if (unknown_ == kMissing) return false;
        if (pending && !fuse_) symbols.push_back(unknown_);
        pending = true;
        return true;
    }

    bool byte_symbols(std::string_view word, std::vector<std::uint32_t>& symbols) {
        bool pending = false;
        for (const char c : word) {
            const std::uint32_t id = byte_ids_[static_cast<std::uint8_t>(c)];
            if (id == kNone) {
                if (!unknown_symbol(pending, symbols)) return false;
                continue;
            }
            if (pending) symbols.push_back(unknown_);
            pending = false;
            symbols.push_back(id);
        }
        if (pending) symbols.push_back(unknown_);
        return true;
    }

    bool character_symbols(std::string_view word, std::vector<std::uint32_t>& symbols) {
        bool pending = false;
        for (std::size_t at = 0; at < word.size();) {
            const std::size_t begin = at;
            const std::uint32_t c = next_code_point(word.data(), at);
            const bool first = begin == 0, last = at == word.size();
            const std::uint32_t id = characters_[first ? (last ? 3 : 0) : (last ? 2 : 1)][c];
            if (id != kNone) {
                if (pending) symbols.push_back(unknown_);
                pending = false;
                symbols.push_back(id);
                continue;
            }
            // As in the library, bytes don't put out an unknown one that waits; it comes after them.
            if (fallback_ && fall_back(word.substr(begin, at - begin), first, last, symbols)) continue;
            if (!unknown_symbol(pending, symbols)) return false;
        }
        if (pending) symbols.push_back(unknown_);
        return true;
    }

    bool fall_back(std::string_view character, bool first, bool last,
                   std::vector<std::uint32_t>& symbols) {
        const std::size_t mark = symbols.size();
        bool all = true;
        const auto add = [&](std::uint8_t byte) {
            const std::uint32_t id = byte_ids_[byte];
            all = all && id != kNone;
            symbols.push_back(id);
        };
        if (!first) std::for_each(prefix_.begin(), prefix_.end(), add);
        for (const char c : character) add(static_cast<std::uint8_t>(c));
        if (last) std::for_each(suffix_.begin(), suffix_.end(), add);
        if (!all) symbols.resize(mark);
        return all;
    }

    bool bytes_ = false, fuse_ = false, fallback_ = false, whole_ = false;
    std::uint32_t unknown_ = kNone;
    std::vector<std::uint32_t> byte_ids_;
    CodePointTable<std::uint32_t> characters_[4];
    std::vector<std::uint8_t> prefix_, suffix_;
    StringTable words_;
    Merger merger_;
};

}  // namespace trimbed::encode
