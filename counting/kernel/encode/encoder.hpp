// Turns one piece of raw text into the ids that the library gives for it: normalizer, pre-tokenizer, model.
// Knows how the parts are put together; each part is in a header of its own. No Python in here.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "added.hpp"
#include "bpe.hpp"
#include "normalize.hpp"
#include "pretokenize.hpp"
#include "recipe.hpp"
#include "unicode.hpp"
#include "unigram.hpp"
#include "words.hpp"

namespace trimbed::encode {

// Not for use by several threads at once: it keeps buffers and what it learned about code points.
class PieceEncoder {
public:
    static constexpr std::size_t kLongest = std::size_t{1} << 24;

    // Throws RecipeError where the bytes are not a sound recipe.
    static std::unique_ptr<PieceEncoder> make(std::string_view bytes) {
        const Recipe recipe(bytes);
        return std::unique_ptr<PieceEncoder>(new PieceEncoder(recipe));
    }

    struct Piece {
        const char* data;
        std::size_t size;
        bool initial;
    };
    // How many pieces are worth handing over at once.
    static constexpr std::size_t kTogether = 64;

    // Gives take(i, known, ids) for each of the pieces in order: its ids, or known == false and none. False: only the
    // library can tell (a text that isn't valid UTF-8, a character whose normalization isn't native, an added token
    // inside, an error in the library).
    // A piece is anything that has data, size and initial.
    template <class Some, class Take>
    void encode_many(std::span<const Some> pieces, Take&& take) {
        Bpe* bpe = std::get_if<Bpe>(&model_);
        std::size_t words[kTogether];
        for (std::size_t done = 0; done < pieces.size();) {
            const auto some = pieces.subspan(done, std::min(kTogether, pieces.size() - done));
            std::uint64_t known = 0;
            if (bpe) {
                bpe->clear();
                for (std::size_t i = 0; i < some.size(); ++i) {
                    known |= std::uint64_t{add(some[i], [&](std::string_view word) { return bpe->add(word); })} << i;
                    words[i] = bpe->words();
                }
                bpe->run();
            }
            for (std::size_t i = 0, word = 0; i < some.size(); ++i) {
                ids_.clear();
                bool good = known >> i & 1;
                if (bpe) {
                    for (; word < words[i]; ++word)
                        if (good) bpe->append(word, ids_);
                } else {
                    good = add(some[i], [&](std::string_view text) { return encode_word(text, ids_); });
                    if (!good) ids_.clear();
                }
                take(done + i, good, std::span<const std::uint32_t>(ids_));
            }
            done += some.size();
        }
    }

    // Appends the ids of a piece; false, with nothing appended, where only the library can tell.
    bool encode(const char* data, std::size_t size, bool initial, std::vector<std::uint32_t>& out) {
        const Piece piece{data, size, initial};
        bool good = false;
        encode_many(std::span(&piece, 1), [&](std::size_t, bool known, std::span<const std::uint32_t> ids) {
            good = known;
            out.insert(out.end(), ids.begin(), ids.end());
        });
        return good;
    }

    std::uint32_t vocab_size() const { return vocab_size_; }

private:
    struct Pipeline {
        AddedTokens raw_added, added;
        Normalizer normalizer;
        PreTokenizer pre_tokenizer;
        bool ascii_same = false;  // the normalizer gives every ASCII text back
        bool keep_start = false;  // a later step asks where in the original a text began; a changed text can't tell
    };

    explicit PieceEncoder(const Recipe& recipe) : vocab_size_(recipe.number("vocab_size")) {
        const std::uint32_t count = recipe.number("pipelines");
        require(count == 1 || count == 2, "wrong number of pipelines");
        for (std::uint32_t i = 0; i < count; ++i) {
            const std::string name = "pipeline." + std::to_string(i);
            Pipeline pipeline;
            pipeline.raw_added = AddedTokens(recipe, name + ".raw_added");
            pipeline.added = AddedTokens(recipe, name + ".added");
            pipeline.normalizer = Normalizer(recipe, name + ".normalizer");
            pipeline.pre_tokenizer = PreTokenizer(recipe, name + ".pre_tokenizer");
            pipeline.ascii_same = recipe.number(name + ".ascii_same") != 0;
            pipeline.keep_start = recipe.number(name + ".keep_start") != 0;
            pipelines_.push_back(std::move(pipeline));
        }
        switch (recipe.number("model")) {
            case 0: model_.emplace<Bpe>(recipe); break;
            case 1: model_.emplace<Unigram>(recipe); break;
            case 2: model_.emplace<WordPiece>(recipe); break;
            case 3: model_.emplace<WordLevel>(recipe); break;
            default: require(false, "unknown model");
        }
    }

    // Gives each word of a piece to the function; false where only the library can tell.
    template <class Some, class Word>
    bool add(const Some& piece, Word word) {
        if (piece.size == 0) return true;
        if (piece.size > kLongest) return false;
        const bool ascii = is_ascii(piece.data, piece.size);
        if (!ascii && !is_utf8(piece.data, piece.size)) return false;
        Pipeline& pipeline = pipelines_[piece.initial && pipelines_.size() > 1 ? 1 : 0];
        std::string_view text(piece.data, piece.size);
        if (pipeline.raw_added.occur(text)) return false;
        if (!(ascii && pipeline.ascii_same)) {
            const auto outcome = pipeline.normalizer.run(text);
            if (outcome == Normalizer::Outcome::kUnknown) return false;
            if (outcome == Normalizer::Outcome::kChanged && pipeline.keep_start) return false;
            text = pipeline.normalizer.text();
        }
        if (text.empty()) return true;
        if (pipeline.added.occur(text)) return false;
        if (pipeline.pre_tokenizer.empty()) return word(text);
        if (!pipeline.pre_tokenizer.run(text)) return false;
        text = pipeline.pre_tokenizer.text();
        for (const auto& span : pipeline.pre_tokenizer.spans())
            if (!word(text.substr(span.begin, span.end - span.begin))) return false;
        return true;
    }

    bool encode_word(std::string_view text, std::vector<std::uint32_t>& out) {
        switch (model_.index()) {
            case 1: return std::get_if<Unigram>(&model_)->encode(text, out);
            case 2: return std::get_if<WordPiece>(&model_)->encode(text, out);
            default: return std::get_if<WordLevel>(&model_)->encode(text, out);
        }
    }

    std::uint32_t vocab_size_;
    std::vector<Pipeline> pipelines_;
    std::vector<std::uint32_t> ids_;
    std::variant<Bpe, Unigram, WordPiece, WordLevel> model_;
};

}  // namespace trimbed::encode
