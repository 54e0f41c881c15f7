// WordPiece (greedy longest match) and WordLevel (the whole word or unknown). Knows no normalizer, no pre-tokenizer.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "strings.hpp"
#include "trie.hpp"

namespace trimbed::encode {

class WordPiece {
public:
    static constexpr std::uint32_t kNone = 0xFFFFFFFFu;

    WordPiece() = default;
    explicit WordPiece(const Recipe& recipe)
        : first_(Strings(recipe, "words.first"), recipe.ids("words.first_ids")),
          inner_(Strings(recipe, "words.inner"), recipe.ids("words.inner_ids")),
          unknown_(recipe.number("words.unknown")),
          longest_(recipe.number("words.longest")) {
        require(unknown_ == kNone || unknown_ < recipe.number("vocab_size"), "the unknown token's id is out of range");
    }

    // Appends the ids of a pre-token that isn't empty; false where the library would raise an error.
    bool encode(std::string_view word, std::vector<std::uint32_t>& out) const {
        if (word.size() > longest_) {
            std::size_t characters = 0;
            for (const char c : word) characters += (static_cast<std::uint8_t>(c) & 0xC0) != 0x80;
            if (characters > longest_) return unknown(out);
        }
        const std::size_t mark = out.size();
        for (std::size_t begin = 0; begin < word.size();) {
            const Trie& trie = begin ? inner_ : first_;
            std::uint32_t node = Trie::kRoot, id = kNone;
            std::size_t end = begin;
            for (std::size_t at = begin; at < word.size();) {
                node = trie.step(node, static_cast<std::uint8_t>(word[at]));
                if (node == Trie::kNone) break;
                ++at;
                if (trie.number(node) != kNone) {
                    id = trie.number(node);
                    end = at;
                }
            }
            if (id == kNone) {
                out.resize(mark);
                return unknown(out);
            }
            out.push_back(id);
            begin = end;
        }
        return true;
    }

private:
    bool unknown(std::vector<std::uint32_t>& out) const {
        if (unknown_ == kNone) return false;
        out.push_back(unknown_);
        return true;
    }

    Trie first_, inner_;
    std::uint32_t unknown_ = kNone, longest_ = 0;
};

class WordLevel {
public:
    WordLevel() = default;
    explicit WordLevel(const Recipe& recipe)
        : words_(Strings(recipe, "words.first"), recipe.ids("words.first_ids")),
          unknown_(recipe.number("words.unknown")) {
        require(unknown_ == StringTable::kNone || unknown_ < recipe.number("vocab_size"),
                "the unknown token's id is out of range");
    }

    bool encode(std::string_view word, std::vector<std::uint32_t>& out) const {
        std::uint32_t id = words_.find(word);
        if (id == StringTable::kNone) id = unknown_;
        if (id == StringTable::kNone) return false;
        out.push_back(id);
        return true;
    }

private:
    StringTable words_;
    std::uint32_t unknown_ = StringTable::kNone;
};

}  // namespace trimbed::encode
