// Unigram: the path of the highest score, with the library's order of operations, ties and unknown score.
// Knows no normalizer and no pre-tokenizer.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include "trie.hpp"
#include "unicode.hpp"

namespace trimbed::encode {

class Unigram {
public:
    static constexpr std::uint32_t kNone = 0xFFFFFFFFu;

    Unigram() = default;
    explicit Unigram(const Recipe& recipe)
        : scores_(recipe.array<double>("unigram.scores")),
          unknown_(recipe.number("unigram.unknown")),
          byte_ids_(recipe.array<std::uint32_t>("unigram.bytes")) {
        const Strings tokens(recipe, "unigram.tokens");
        require(tokens.size() == scores_.size() && !scores_.empty(), "tokens and scores differ in number");
        require(scores_.size() <= recipe.number("vocab_size"), "there are more tokens than ids");
        for (const double score : scores_) require(std::isfinite(score), "a score isn't a number");
        require(unknown_ == kNone || unknown_ < scores_.size(), "the unknown token's id is out of range");
        require(byte_ids_.empty() || byte_ids_.size() == 256, "unigram.bytes has a wrong length");
        for (const std::uint32_t id : byte_ids_)
            require(id == kNone || id < scores_.size(), "a byte's id is out of range");
        std::vector<std::uint32_t> ids(scores_.size());
        double lowest = INFINITY;
        for (std::uint32_t i = 0; i < ids.size(); ++i) {
            ids[i] = i;
            if (scores_[i] < lowest) lowest = scores_[i];
        }
        unknown_score_ = lowest - 10.0;
        trie_ = Trie(tokens, ids);
    }

    // Appends the ids of a pre-token that isn't empty; false where the library would raise an error.
    bool encode(std::string_view word, std::vector<std::uint32_t>& out) {
        const std::size_t size = word.size();
        best_.assign(size + 1, Node{0.0, kNone, kNone});
        for (std::size_t begin = 0; begin < size;) {
            const double till_here = best_[begin].score;
            std::size_t after = begin;
            next_code_point(word.data(), after);
            bool single = false;
            std::uint32_t node = Trie::kRoot;
            for (std::size_t at = begin; at < size;) {
                node = trie_.step(node, static_cast<std::uint8_t>(word[at]));
                if (node == Trie::kNone) break;
                ++at;
                const std::uint32_t id = trie_.number(node);
                if (id == kNone) continue;
                offer(at, scores_[id] + till_here, begin, id);
                single = single || at == after;
            }
            if (!single) {
                const double score = unknown_score_ + till_here;
                if (better(after, score)) {
                    if (unknown_ == kNone) return false;
                    offer(after, score, begin, unknown_);
                }
            }
            begin = after;
        }
        parts_.clear();
        for (std::size_t end = size; end > 0;) {
            const Node& node = best_[end];
            const std::size_t begin = node.begin;
            const bool unknown = node.id == unknown_;
            if (unknown && !parts_.empty() && parts_.back().unknown) {
                parts_.back().begin = begin;
            } else {
                parts_.push_back({begin, end, node.id, unknown});
            }
            end = begin;
        }
        for (std::size_t i = parts_.size(); i-- > 0;) {
            const Part& part = parts_[i];
            if (!part.unknown) {
                out.push_back(part.id);
            } else if (!unknown(word.substr(part.begin, part.end - part.begin), out)) {
                return false;
            }
        }
        return true;
    }

private:
    struct Node {
        double score;
        std::uint32_t begin, id;
    };
    struct Part {
        std::size_t begin, end;
        std::uint32_t id;
        bool unknown;
    };

    bool better(std::size_t end, double score) const {
        return best_[end].begin == kNone || score > best_[end].score;
    }
    void offer(std::size_t end, double score, std::size_t begin, std::uint32_t id) {
        if (better(end, score)) best_[end] = {score, static_cast<std::uint32_t>(begin), id};
    }

    // A run of unknown characters: together they may be a token after all, else bytes, else the unknown token.
    bool unknown(std::string_view run, std::vector<std::uint32_t>& out) const {
        const std::uint32_t id = trie_.find(run);
        if (id != kNone) {
            out.push_back(id);
            return true;
        }
        if (!byte_ids_.empty()) {
            bool all = true;
            for (const char c : run) all = all && byte_ids_[static_cast<std::uint8_t>(c)] != kNone;
            if (all) {
                for (const char c : run) out.push_back(byte_ids_[static_cast<std::uint8_t>(c)]);
                return true;
            }
        }
        if (unknown_ == kNone) return false;
        out.push_back(unknown_);
        return true;
    }

    std::vector<double> scores_;
    std::uint32_t unknown_ = kNone;
    double unknown_score_ = 0;
    std::vector<std::uint32_t> byte_ids_;
    Trie trie_;
    std::vector<Node> best_;
    std::vector<Part> parts_;
};

}  // namespace trimbed::encode
