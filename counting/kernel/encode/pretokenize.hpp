// Cuts a normalized text into pre-tokens by the steps of a recipe. Knows neither normalizers nor models.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "normalize.hpp"
#include "regex.hpp"
#include "unicode.hpp"

namespace trimbed::encode {

// Steps, eight u32 each: op, then its arguments.
enum class Cut : std::uint32_t {
    kSplit = 1,        // program, behaviour, invert
    kMetaspace = 2,    // string for a space, scheme (0 never, 1 always, 2 first), split
    kPrefixSpace = 3,  // a space before each stretch that doesn't begin with one
    kBytes = 4,        // each byte becomes the character that stands for it
    kFixed = 5,        // length in code points
};
enum class Behaviour : std::uint32_t { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

class PreTokenizer {
public:
    PreTokenizer() = default;
    PreTokenizer(const Recipe& recipe, const std::string& name) : steps_(recipe.array<std::uint32_t>(name + ".steps")) {
        require(steps_.size() % 8 == 0, name + ".steps has a wrong length");
        const Strings strings = texts(recipe);
        for (std::size_t i = 0; i < steps_.size(); i += 8) {
            Step step{static_cast<Cut>(steps_[i]), steps_[i + 2], steps_[i + 3], {}, {}, {}};
            switch (step.op) {
                case Cut::kSplit:
                    require(step.b <= 4 && step.c <= 1, name + " has a wrong split");
                    step.program = Program(recipe, "program." + std::to_string(steps_[i + 1]));
                    break;
                case Cut::kMetaspace:
                    require(steps_[i + 1] < strings.size() && step.b <= 2, name + " has a wrong metaspace");
                    step.text = strings[steps_[i + 1]];
                    require(!step.text.empty(), name + " replaces a space by nothing");
                    break;
                case Cut::kPrefixSpace: break;
                case Cut::kBytes: step.bytes = ByteMap(recipe); break;
                case Cut::kFixed: require(step.b > 0, name + " has a wrong length"); break;
                default: require(false, name + " has an unknown step");
            }
            list_.push_back(std::move(step));
        }
        if (needs_classes()) classes_ = CodePointTable<std::uint8_t>(recipe, name + ".classes");
    }

    bool empty() const { return list_.empty(); }

    struct Span {
        std::size_t begin, end;
    };

    // The text after all steps, and the pre-tokens in it as byte ranges. Both stay valid until the next call.
    // False: a step took too long; nothing is known. `text` is valid UTF-8 and not empty.
    bool run(std::string_view text) {
        text_ = text;
        spans_.assign(1, Span{0, text.size()});
        bool classified = false;
        for (std::size_t k = 0; k < list_.size(); ++k) {
            const Step& step = list_[k];
            switch (step.op) {
                case Cut::kSplit:
                    if (!classified) classify();
                    classified = true;
                    if (!split(step)) return false;
                    break;
                case Cut::kMetaspace:
                    metaspace(step);
                    classified = false;
                    break;
                case Cut::kPrefixSpace:
                    if (prefix_space()) classified = false;
                    break;
                case Cut::kBytes:
                    bytes(step);
                    classified = false;
                    break;
                case Cut::kFixed: fixed(step); break;
            }
        }
        return true;
    }
    std::string_view text() const { return text_; }
    const std::vector<Span>& spans() const { return spans_; }

private:
    struct Step {
        Cut op;
        std::uint32_t b, c;
        Program program;
        std::string text;
        ByteMap bytes;
    };
    struct Found {
        std::size_t begin, end;
        bool match;
    };

    bool needs_classes() const {
        for (const Step& step : list_)
            if (step.op == Cut::kSplit) return true;
        return false;
    }

    // Class of each code point of the text, and the byte where each begins (only where that isn't its index).
    void classify() {
        class_of_.resize(text_.size() + 1);
        plain_ = is_ascii(text_.data(), text_.size());
        if (plain_) {
            for (std::size_t i = 0; i < text_.size(); ++i)
                class_of_[i] = classes_[static_cast<std::uint8_t>(text_[i])];
            count_ = text_.size();
            return;
        }
        begin_of_.resize(text_.size() + 1);
        index_of_.resize(text_.size() + 1);
        count_ = 0;
        for (std::size_t at = 0; at < text_.size();) {
            begin_of_[count_] = static_cast<std::uint32_t>(at);
            index_of_[at] = static_cast<std::uint32_t>(count_);
            class_of_[count_++] = classes_[next_code_point(text_.data(), at)];
        }
        begin_of_[count_] = static_cast<std::uint32_t>(text_.size());
        index_of_[text_.size()] = static_cast<std::uint32_t>(count_);
    }

    bool split(const Step& step) {
        next_.clear();
        matcher_.allow(text_.size());
        for (const Span& span : spans_) {
            const std::size_t first = plain_ ? span.begin : index_of_[span.begin];
            const std::size_t last = plain_ ? span.end : index_of_[span.end];
            const std::uint8_t* text = class_of_.data() + first;
            const std::size_t size = last - first;
            found_.clear();
            std::size_t done = 0;
            for (std::size_t at = 0; at < size;) {
                if (!step.program.can_begin(text[at])) {
                    ++at;
                    continue;
                }
                const std::int64_t end = matcher_.match(step.program, text, size, at);
                if (end == Matcher::kTooMuch) return false;
                if (end <= static_cast<std::int64_t>(at)) {  // no match (recipes have no empty ones)
                    ++at;
                    continue;
                }
                if (done != at) found_.push_back({done, at, step.c != 0});
                found_.push_back({at, static_cast<std::size_t>(end), step.c == 0});
                done = at = static_cast<std::size_t>(end);
            }
            if (done != size) found_.push_back({done, size, step.c != 0});
            const std::size_t before = next_.size();
            behave(static_cast<Behaviour>(step.b));
            for (std::size_t i = before; i < next_.size(); ++i) {
                Span& cut = next_[i];
                cut.begin = plain_ ? cut.begin + first : begin_of_[cut.begin + first];
                cut.end = plain_ ? cut.end + first : begin_of_[cut.end + first];
            }
        }
        spans_.swap(next_);
        return true;
    }

    // What becomes of matches and the stretches between them, as the library folds them.
    void behave(Behaviour behaviour) {
        const std::size_t base = next_.size();
        switch (behaviour) {
            case Behaviour::kIsolated:
                for (const Found& f : found_) next_.push_back({f.begin, f.end});
                break;
            case Behaviour::kRemoved:
                for (const Found& f : found_)
                    if (!f.match) next_.push_back({f.begin, f.end});
                break;
            case Behaviour::kContiguous:
            case Behaviour::kMergedWithPrevious: {
                bool previous = false;
                for (const Found& f : found_) {
                    const bool joins =
                        behaviour == Behaviour::kContiguous ? f.match == previous : f.match && !previous;
                    if (joins && next_.size() > base) {
                        next_.back().end = f.end;
                    } else {
                        next_.push_back({f.begin, f.end});
                    }
                    previous = f.match;
                }
                break;
            }
            case Behaviour::kMergedWithNext: {
                bool previous = false;
                for (std::size_t i = found_.size(); i-- > 0;) {
                    const Found& f = found_[i];
                    if (f.match && !previous && next_.size() > base) {
                        next_.back().begin = f.begin;
                    } else {
                        next_.push_back({f.begin, f.end});
                    }
                    previous = f.match;
                }
                std::size_t low = base, high = next_.size();
                while (low + 1 < high) std::swap(next_[low++], next_[--high]);
                break;
            }
        }
    }

    // Writes a new text span by span; `write` appends a span's new text.
    template <class Write>
    void rewrite(Write write) {
        std::string& out = buffers_[turn_ ^= 1];
        out.clear();
        next_.clear();
        for (const Span& span : spans_) {
            const std::size_t begin = out.size();
            write(out, text_.substr(span.begin, span.end - span.begin), span);
            if (out.size() != begin) next_.push_back({begin, out.size()});
        }
        text_ = out;
        spans_.swap(next_);
    }

    void metaspace(const Step& step) {
        rewrite([&](std::string& out, std::string_view part, const Span& span) {
            const bool begins = part.front() == ' ' || part.starts_with(step.text);
            if (!begins && (step.b == 1 || (step.b == 2 && span.begin == 0))) out += step.text;
            for (const char c : part) {
                if (c == ' ') {
                    out += step.text;
                } else {
                    out.push_back(c);
                }
            }
        });
        if (!step.c) return;
        // Cut before each mark; as a mark that is one code point can't begin inside another, bytes will do.
        next_.clear();
        for (const Span& span : spans_) {
            std::size_t begin = span.begin;
            for (std::size_t at = begin + 1; at < span.end;) {
                at = text_.find(step.text, at);
                if (at >= span.end) break;
                next_.push_back({begin, at});
                begin = at;
                at += step.text.size();
            }
            next_.push_back({begin, span.end});
        }
        spans_.swap(next_);
    }

    bool prefix_space() {
        bool any = false;
        for (const Span& span : spans_) any = any || text_[span.begin] != ' ';
        if (!any) return false;
        rewrite([](std::string& out, std::string_view part, const Span&) {
            if (part.front() != ' ') out.push_back(' ');
            out += part;
        });
        return true;
    }

    void bytes(const Step& step) {
        rewrite([&](std::string& out, std::string_view part, const Span&) { step.bytes.apply(part, out); });
    }

    void fixed(const Step& step) {
        next_.clear();
        for (const Span& span : spans_) {
            std::size_t at = span.begin, begin = at;
            std::uint32_t count = 0;
            while (at < span.end) {
                next_code_point(text_.data(), at);
                if (++count == step.b) {
                    next_.push_back({begin, at});
                    begin = at;
                    count = 0;
                }
            }
            if (begin != span.end) next_.push_back({begin, span.end});
        }
        spans_.swap(next_);
    }

    std::vector<std::uint32_t> steps_;
    std::vector<Step> list_;
    CodePointTable<std::uint8_t> classes_;
    Matcher matcher_;
    std::string_view text_;
    std::vector<Span> spans_, next_;
    std::vector<Found> found_;
    std::vector<std::uint8_t> class_of_;
    std::vector<std::uint32_t> begin_of_, index_of_;
    std::size_t count_ = 0;
    bool plain_ = true;
    std::string buffers_[2];
    unsigned turn_ = 0;
};

}  // namespace trimbed::encode
