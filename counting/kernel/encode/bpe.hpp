// Byte pair encoding of one pre-token: lowest rank first, leftmost on ties. Knows no normalizer and no pre-tokenizer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

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
        read_merges(recipe);
    }

    // Appends the ids of a pre-token that isn't empty; false where the library would raise an error.
    bool encode(std::string_view word, std::vector<std::uint32_t>& out) {
        if (whole_) {
            const std::uint32_t id = words_.find(word);
            if (id != StringTable::kNone) {
                out.push_back(id);
                return true;
            }
        }
        symbols_.clear();
        if (bytes_) {
            if (!byte_symbols(word)) return false;
        } else {
            if (!character_symbols(word)) return false;
        }
        if (symbols_.size() <= kShort) {
            merge_short();
            out.insert(out.end(), symbols_.begin(), symbols_.end());
        } else {
            merge_long(out);
        }
        return true;
    }

private:
    static constexpr std::size_t kShort = 48;
    static constexpr std::uint32_t kMissing = 0xFFFFFFFEu;
    static constexpr std::uint32_t kNoRank = 0xFFFFFFFFu;

    void read_merges(const Recipe& recipe) {
        const auto left = recipe.array<std::uint32_t>("bpe.left");
        const auto right = recipe.array<std::uint32_t>("bpe.right");
        merged_ = recipe.array<std::uint32_t>("bpe.merged");
        require(left.size() == right.size() && left.size() == merged_.size(), "merges differ in length");
        const std::uint32_t vocab = recipe.number("vocab_size");
        const auto known = [&](std::uint32_t id) { require(id < vocab, "a merge has an id out of range"); };
        for (std::size_t i = 0; i < left.size(); ++i) {
            known(left[i]);
            known(right[i]);
            known(merged_[i]);
        }
        for (const std::uint32_t id : byte_ids_) require(id < vocab || id == kNone, "a byte's id is out of range");
        require(unknown_ < vocab || unknown_ >= kMissing, "the unknown token's id is out of range");
        id_bits_ = static_cast<unsigned>(std::bit_width(vocab));
        rank_bits_ = 64 - 2 * id_bits_;
        require(id_bits_ <= 21 && (left.size() + 1) >> std::min(rank_bits_, 31u) == 0, "too many tokens and merges");
        slots_.assign(left.size() + left.size() / 3 + 64, kEmpty);
        unsigned bits = 10;
        while ((std::size_t{1} << bits) < left.size() * 8) ++bits;
        some_.assign((std::size_t{1} << bits) / 64, 0);
        some_shift_ = 64 - bits;
        rank_mask_ = (std::uint64_t{1} << rank_bits_) - 1;
        near_.assign(std::size_t{1} << kNearBits, kEmpty);
        for (std::uint32_t rank = 0; rank < left.size(); ++rank) {  // later ones replace earlier ones
            const std::uint64_t key = std::uint64_t{left[rank]} << id_bits_ | right[rank];
            std::size_t at = place(key);
            while (slots_[at] != kEmpty && slots_[at] >> rank_bits_ != key) at = after(at);
            slots_[at] = key << rank_bits_ | rank;
            const std::uint64_t bit = spread(key) >> some_shift_;
            some_[bit >> 6] |= std::uint64_t{1} << (bit & 63);
        }
    }

    // No slot is all ones, as no id is.
    static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};
    static constexpr unsigned kNearBits = 14;

    static std::uint64_t spread(std::uint64_t key) { return key * 0x9E3779B97F4A7C15ull; }
    std::size_t place(std::uint64_t key) const {
        return static_cast<std::size_t>(static_cast<unsigned __int128>(spread(key)) * slots_.size() >> 64);
    }
    std::size_t after(std::size_t at) const { return at + 1 == slots_.size() ? 0 : at + 1; }

    // The rank of a pair of symbols, kNoRank if it is never merged. Look-ups in the large table mostly wait for memory.
    // Few pairs make up most of them, so a small table keeps what was last found, vain look-ups included; of the rest,
    // a row of bits, one for the hash of each pair there is, answers most of the vain ones.
    std::uint32_t rank(std::uint32_t left, std::uint32_t right) {
        const std::uint64_t key = std::uint64_t{left} << id_bits_ | right;
        std::uint64_t& near = near_[spread(key) >> (64 - kNearBits)];
        if (near >> rank_bits_ == key) return rank_in(near);
        const std::uint64_t bit = spread(key) >> some_shift_;
        near = some_[bit >> 6] >> (bit & 63) & 1 ? far(key) : key << rank_bits_ | rank_mask_;
        return rank_in(near);
    }
    // In a slot, a rank of all ones means: no merge.
    std::uint32_t rank_in(std::uint64_t slot) const {
        const std::uint64_t value = slot & rank_mask_;
        return value == rank_mask_ ? kNoRank : static_cast<std::uint32_t>(value);
    }
    std::uint64_t far(std::uint64_t key) const {
        for (std::size_t at = place(key);; at = after(at)) {
            const std::uint64_t slot = slots_[at];
            if (slot >> rank_bits_ == key && slot != kEmpty) return slot;
            if (slot == kEmpty) return key << rank_bits_ | rank_mask_;
        }
    }

    bool unknown_symbol(bool& pending) {
        if (unknown_ == kNone) return true;
        if (unknown_ == kMissing) return false;
        if (pending && !fuse_) symbols_.push_back(unknown_);
        pending = true;
        return true;
    }

    bool byte_symbols(std::string_view word) {
        bool pending = false;
        for (const char c : word) {
            const std::uint32_t id = byte_ids_[static_cast<std::uint8_t>(c)];
            if (id == kNone) {
                if (!unknown_symbol(pending)) return false;
                continue;
            }
            if (pending) symbols_.push_back(unknown_);
            pending = false;
            symbols_.push_back(id);
        }
        if (pending) symbols_.push_back(unknown_);
        return true;
    }

    bool character_symbols(std::string_view word) {
        bool pending = false;
        for (std::size_t at = 0; at < word.size();) {
            const std::size_t begin = at;
            const std::uint32_t c = next_code_point(word.data(), at);
            const bool first = begin == 0, last = at == word.size();
            const std::uint32_t id = characters_[first ? (last ? 3 : 0) : (last ? 2 : 1)][c];
            if (id != kNone) {
                if (pending) symbols_.push_back(unknown_);
                pending = false;
                symbols_.push_back(id);
                continue;
            }
            // As in the library, bytes don't put out an unknown one that waits; it comes after them.
            if (fallback_ && fall_back(word.substr(begin, at - begin), first, last)) continue;
            if (!unknown_symbol(pending)) return false;
        }
        if (pending) symbols_.push_back(unknown_);
        return true;
    }

    bool fall_back(std::string_view character, bool first, bool last) {
        const std::size_t mark = symbols_.size();
        bool all = true;
        const auto add = [&](std::uint8_t byte) {
            const std::uint32_t id = byte_ids_[byte];
            all = all && id != kNone;
            symbols_.push_back(id);
        };
        if (!first) std::for_each(prefix_.begin(), prefix_.end(), add);
        for (const char c : character) add(static_cast<std::uint8_t>(c));
        if (last) std::for_each(suffix_.begin(), suffix_.end(), add);
        if (!all) symbols_.resize(mark);
        return all;
    }

    // Few symbols: look at all ranks for the lowest, merge, close the gap.
    void merge_short() {
        std::size_t n = symbols_.size();
        if (n < 2) return;
        std::uint32_t ranks[kShort];
        std::uint32_t* ids = symbols_.data();
        for (std::size_t i = 0; i + 1 < n; ++i) ranks[i] = rank(ids[i], ids[i + 1]);
        for (;;) {
            std::uint32_t best = kNoRank;
            std::size_t at = 0;
            for (std::size_t i = 0; i + 1 < n; ++i) {
                if (ranks[i] < best) {
                    best = ranks[i];
                    at = i;
                }
            }
            if (best == kNoRank) break;
            ids[at] = merged_[best];
            --n;
            for (std::size_t i = at + 1; i < n; ++i) {
                ids[i] = ids[i + 1];
                ranks[i - 1] = ranks[i];
            }
            if (at + 1 < n) ranks[at] = rank(ids[at], ids[at + 1]);
            if (at > 0) ranks[at - 1] = rank(ids[at - 1], ids[at]);
        }
        symbols_.resize(n);
    }

    // Many symbols: a heap of candidate merges over a linked list; outdated candidates are dropped when they come up.
    void merge_long(std::vector<std::uint32_t>& out) {
        const auto n = static_cast<std::uint32_t>(symbols_.size());
        next_.resize(n);
        previous_.resize(n);
        heap_.clear();
        for (std::uint32_t i = 0; i < n; ++i) {
            next_[i] = i + 1 < n ? i + 1 : kNone;
            previous_[i] = i ? i - 1 : kNone;
        }
        const auto later = [](const Candidate& a, const Candidate& b) {
            return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
        };
        const auto consider = [&](std::uint32_t at) {
            const std::uint32_t r = rank(symbols_[at], symbols_[next_[at]]);
            if (r != kNoRank) heap_.push_back({r, at});
            return r != kNoRank;
        };
        for (std::uint32_t i = 0; i + 1 < n; ++i) consider(i);
        std::make_heap(heap_.begin(), heap_.end(), later);
        while (!heap_.empty()) {
            std::pop_heap(heap_.begin(), heap_.end(), later);
            const Candidate top = heap_.back();
            heap_.pop_back();
            if (symbols_[top.at] == kNone || next_[top.at] == kNone) continue;
            const std::uint32_t right = next_[top.at];
            if (rank(symbols_[top.at], symbols_[right]) != top.rank) continue;
            symbols_[top.at] = merged_[top.rank];
            symbols_[right] = kNone;
            next_[top.at] = next_[right];
            if (next_[right] != kNone) {
                previous_[next_[right]] = top.at;
                if (consider(top.at)) std::push_heap(heap_.begin(), heap_.end(), later);
            }
            if (previous_[top.at] != kNone && consider(previous_[top.at]))
                std::push_heap(heap_.begin(), heap_.end(), later);
        }
        for (std::uint32_t at = 0; at != kNone; at = next_[at]) out.push_back(symbols_[at]);
    }

    struct Candidate {
        std::uint32_t rank, at;
    };

    bool bytes_ = false, fuse_ = false, fallback_ = false, whole_ = false;
    std::uint32_t unknown_ = kNone;
    std::vector<std::uint32_t> byte_ids_;
    CodePointTable<std::uint32_t> characters_[4];
    std::vector<std::uint8_t> prefix_, suffix_;
    StringTable words_;
    std::vector<std::uint64_t> slots_, near_, some_;
    std::uint64_t rank_mask_ = 0;
    std::vector<std::uint32_t> merged_;
    unsigned id_bits_ = 0, rank_bits_ = 0, some_shift_ = 0;
    std::vector<std::uint32_t> symbols_, next_, previous_;
    std::vector<Candidate> heap_;
};

}  // namespace trimbed::encode
