// Turns one piece of raw text into the ids that the library gives for it: normalizer, pre-tokenizer, model.
// Knows how the parts are put together; each part is in a header of its own. No Python in here.
#pragma once

#include <cstdint>
#include <memory>
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

    // Appends the ids of a piece. False, with nothing appended: only the library can tell (a text that isn't valid
    // UTF-8, a character whose normalization isn't native, an added token inside, an error in the library).
    bool encode(const char* data, std::size_t size, bool initial, std::vector<std::uint32_t>& out) {
        if (size == 0) return true;
        if (size > kLongest) return false;
        const bool ascii = is_ascii(data, size);
        if (!ascii && !is_utf8(data, size)) return false;
        Pipeline& pipeline = pipelines_[initial && pipelines_.size() > 1 ? 1 : 0];
        std::string_view text(data, size);
        if (pipeline.raw_added.occur(text)) return false;
        if (!(ascii && pipeline.ascii_same)) {
            const auto outcome = pipeline.normalizer.run(text);
            if (outcome == Normalizer::Outcome::kUnknown) return false;
            if (outcome == Normalizer::Outcome::kChanged && pipeline.keep_start) return false;
            text = pipeline.normalizer.text();
        }
        if (text.empty()) return true;
        if (pipeline.added.occur(text)) return false;
        const std::size_t mark = out.size();
        bool good = true;
        if (pipeline.pre_tokenizer.empty()) {
            good = word(text, out);
        } else {
            good = pipeline.pre_tokenizer.run(text);
            if (good) {
                text = pipeline.pre_tokenizer.text();
                for (const auto& span : pipeline.pre_tokenizer.spans()) {
                    good = word(text.substr(span.begin, span.end - span.begin), out);
                    if (!good) break;
                }
            }
        }
        if (!good) out.resize(mark);
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

    bool word(std::string_view text, std::vector<std::uint32_t>& out) {
        switch (model_.index()) {
            case 0: return std::get_if<Bpe>(&model_)->encode(text, out);
            case 1: return std::get_if<Unigram>(&model_)->encode(text, out);
            case 2: return std::get_if<WordPiece>(&model_)->encode(text, out);
            default: return std::get_if<WordLevel>(&model_)->encode(text, out);
        }
    }

    std::uint32_t vocab_size_;
    std::vector<Pipeline> pipelines_;
    std::variant<Bpe, Unigram, WordPiece, WordLevel> model_;
};

}  // namespace trimbed::encode
