// Normalizes a piece by the steps of a recipe. Every table comes from the recipe, which asks the library itself
// what it does to each code point; this file knows only the algorithms that work on more than one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "regex.hpp"
#include "unicode.hpp"

namespace trimbed::encode {

// Each code point becomes a string: `name`.index/.pages u32 (0: itself, n: string n - 1) and `name`.strings.
class CharMap {
public:
    CharMap() = default;
    CharMap(const Recipe& recipe, const std::string& name)
        : table_(recipe, name), strings_(recipe, name + ".strings") {
        for (const std::uint32_t value : table_.values())
            require(value <= strings_.size(), name + " points outside its strings");
        for (std::size_t i = 0; i < strings_.size(); ++i)
            require(is_utf8(strings_[i].data(), strings_[i].size()), name + " has a string that isn't UTF-8");
    }
    void apply(std::string_view text, std::string& out) const {
        for (std::size_t at = 0; at < text.size();) {
            const std::size_t begin = at;
            const std::uint32_t value = table_[next_code_point(text.data(), at)];
            if (value) {
                out += strings_[value - 1];
            } else {
                out.append(text.data() + begin, at - begin);
            }
        }
    }

private:
    CodePointTable<std::uint32_t> table_;
    Strings strings_;
};

// The strings that steps refer to by number.
inline Strings texts(const Recipe& recipe) {
    const Strings strings(recipe, "strings");
    for (std::size_t i = 0; i < strings.size(); ++i)
        require(is_utf8(strings[i].data(), strings[i].size()), "one of the strings isn't UTF-8");
    return strings;
}

// Each byte becomes the character that stands for it in byte-level vocabularies: `bytes` u32[256].
class ByteMap {
public:
    ByteMap() = default;
    explicit ByteMap(const Recipe& recipe) {
        const auto points = recipe.array<std::uint32_t>("bytes");
        require(points.size() == 256, "bytes has a wrong length");
        for (const std::uint32_t c : points) {
            require(c < kCodePoints && c >> 11 != 0x1B, "bytes has no code point");
            characters_.emplace_back();
            append_code_point(characters_.back(), c);
        }
    }
    void apply(std::string_view text, std::string& out) const {
        for (const char c : text) out += characters_[static_cast<std::uint8_t>(c)];
    }

private:
    std::vector<std::string> characters_;
};

// Canonical or compatibility decomposition, ordering of marks, and composition if asked.
class Composer {
public:
    Composer() = default;
    // `name`: a CharMap of full decompositions; `name`.order: u8, 0 for starters, else the rank of the mark's class;
    // `name`.pairs: u64 first << 32 | second, ascending; `name`.composites: u32.
    Composer(const Recipe& recipe, const std::string& name)
        : decompose_(recipe, name),
          order_(recipe, name + ".order"),
          pairs_(recipe.array<std::uint64_t>(name + ".pairs")),
          composites_(recipe.array<std::uint32_t>(name + ".composites")) {
        require(pairs_.size() == composites_.size(), name + " has pairs without composites");
        require(std::is_sorted(pairs_.begin(), pairs_.end()), name + ".pairs is not ascending");
        for (const std::uint32_t c : composites_) require(c < kCodePoints, name + " composes to no code point");
        for (const std::uint64_t pair : pairs_) {
            const auto second = static_cast<std::uint32_t>(pair);
            if (second_.empty() || second_.back() != second) second_.push_back(second);
        }
        std::sort(second_.begin(), second_.end());
        second_.erase(std::unique(second_.begin(), second_.end()), second_.end());
    }

    void apply(std::string_view text, std::string& out, bool compose) {
        decomposed_.clear();
        decompose_.apply(text, decomposed_);
        points_.clear();
        for (std::size_t at = 0; at < decomposed_.size();) {
            const std::uint32_t c = next_code_point(decomposed_.data(), at);
            points_.push_back({c, order_[c]});
        }
        for (std::size_t i = 0; i < points_.size();) {
            if (points_[i].order == 0) {
                ++i;
                continue;
            }
            std::size_t end = i;
            while (end < points_.size() && points_[end].order != 0) ++end;
            std::stable_sort(points_.begin() + static_cast<std::ptrdiff_t>(i),
                             points_.begin() + static_cast<std::ptrdiff_t>(end),
                             [](const Point& a, const Point& b) { return a.order < b.order; });
            i = end;
        }
        if (compose) recompose();
        for (const Point& point : points_) append_code_point(out, point.c);
    }

    // Whether text before `c` can never change what comes of `c` and what follows, nor the other way round.
    bool begins_afresh(std::uint32_t c) {
        decomposed_.clear();
        std::string one;
        append_code_point(one, c);
        decompose_.apply(one, decomposed_);
        if (decomposed_.empty()) return false;
        for (std::size_t at = 0; at < decomposed_.size();) {
            const bool first = at == 0;
            const std::uint32_t d = next_code_point(decomposed_.data(), at);
            if (first && (order_[d] != 0 || std::binary_search(second_.begin(), second_.end(), d))) return false;
        }
        return true;
    }

private:
    struct Point {
        std::uint32_t c;
        std::uint8_t order;
    };

    void recompose() {
        std::size_t write = 0, starter = SIZE_MAX;
        std::uint8_t last = 0;  // order of the last mark that stayed behind the starter
        bool adjacent = true;   // nothing stayed between the starter and here
        for (std::size_t i = 0; i < points_.size(); ++i) {
            const Point point = points_[i];
            if (starter != SIZE_MAX && (adjacent || (last < point.order && point.order != 0))) {
                const std::uint64_t key = std::uint64_t{points_[starter].c} << 32 | point.c;
                const auto found = std::lower_bound(pairs_.begin(), pairs_.end(), key);
                if (found != pairs_.end() && *found == key) {
                    const std::uint32_t c = composites_[static_cast<std::size_t>(found - pairs_.begin())];
                    points_[starter] = {c, order_[c]};
                    continue;
                }
            }
            if (point.order == 0) {
                starter = write;
                adjacent = true;
                last = 0;
            } else {
                adjacent = false;
                last = point.order;
            }
            points_[write++] = point;
        }
        points_.resize(write);
    }

    CharMap decompose_;
    CodePointTable<std::uint8_t> order_;
    std::vector<std::uint64_t> pairs_;
    std::vector<std::uint32_t> composites_, second_;
    std::string decomposed_;
    std::vector<Point> points_;
};

// Steps, eight u32 each: op, then its arguments.
enum class Norm : std::uint32_t {
    kMap = 1,      // map
    kCompose = 2,  // composer, whether to compose
    kPrepend = 3,  // string, put before a text that isn't empty
    kStrip = 4,    // left, right, table of flags
    kReplace = 5,  // program, string, table of classes
    kGuard = 6,    // table of flags: two neighbours, one of them flagged, of under six bytes together: not native
    kBytes = 7,    // bytes become characters
};

class Normalizer {
public:
    enum class Outcome { kSame, kChanged, kUnknown };

    Normalizer() = default;
    Normalizer(const Recipe& recipe, const std::string& name) {
        const auto steps = recipe.array<std::uint32_t>(name + ".steps");
        require(steps.size() % 8 == 0, name + ".steps has a wrong length");
        const Strings strings = texts(recipe);
        const auto table = [&](std::uint32_t k) {
            return CodePointTable<std::uint8_t>(recipe, "table." + std::to_string(k));
        };
        for (std::size_t i = 0; i < steps.size(); i += 8) {
            Step step{};
            step.op = static_cast<Norm>(steps[i]);
            step.a = steps[i + 1];
            step.b = steps[i + 2];
            switch (step.op) {
                case Norm::kMap: step.map = CharMap(recipe, "map." + std::to_string(step.a)); break;
                case Norm::kCompose: step.composer = Composer(recipe, "composer." + std::to_string(step.a)); break;
                case Norm::kPrepend:
                    require(step.a < strings.size(), name + " has no such string");
                    step.text = strings[step.a];
                    break;
                case Norm::kStrip: step.table = table(steps[i + 3]); break;
                case Norm::kReplace:
                    require(step.b < strings.size(), name + " has no such string");
                    step.program = Program(recipe, "program." + std::to_string(step.a));
                    step.text = strings[step.b];
                    step.table = table(steps[i + 3]);
                    break;
                case Norm::kGuard: step.table = table(step.a); break;
                case Norm::kBytes: step.bytes = ByteMap(recipe); break;
                default: require(false, name + " has an unknown step");
            }
            list_.push_back(std::move(step));
        }
        for (std::size_t i = 0; i < list_.size();) {
            std::size_t end = i;
            while (end < list_.size() && per_character(list_[end].op)) ++end;
            if (end == i) {
                groups_.push_back({i, i + 1, false, {}, {}});
                i = end + 1;
            } else {
                groups_.push_back({i, end, true, std::vector<std::uint16_t>(kCodePoints, kUnasked), {}});
                i = end;
            }
        }
    }

    // Normalizes text (valid UTF-8); the result is text() until the next call.
    Outcome run(std::string_view text) {
        text_ = text;
        bool changed = false;
        for (Group& group : groups_) {
            if (text_.empty()) break;
            std::string& out = buffers_[turn_ ^ 1];
            out.clear();
            const Outcome outcome = group.characters ? run_group(group, out) : run_step(list_[group.begin], out);
            if (outcome == Outcome::kUnknown) return outcome;
            if (outcome == Outcome::kChanged) {
                turn_ ^= 1;
                text_ = out;
                changed = true;
            }
        }
        return changed ? Outcome::kChanged : Outcome::kSame;
    }
    std::string_view text() const { return text_; }

private:
    struct Step {
        Norm op;
        std::uint32_t a, b;
        CharMap map;
        ByteMap bytes;
        Composer composer;
        std::string text;
        CodePointTable<std::uint8_t> table;
        Program program;
    };
    // What a group of steps makes of one code point, whatever stands around it: unknown yet, itself, it does depend on
    // what stands around, or the string of that number.
    enum : std::uint16_t { kUnasked, kItself, kDepends, kFirstString, kMostStrings = 0xFFFF };
    struct Group {
        std::size_t begin, end;
        bool characters;
        std::vector<std::uint16_t> state;
        std::vector<std::string> strings;
    };

    static bool per_character(Norm op) { return op == Norm::kMap || op == Norm::kCompose || op == Norm::kBytes; }

    Outcome run_group(Group& group, std::string& out) {
        std::size_t at = 0, same = 0;
        bool changed = false;
        while (at < text_.size()) {
            const std::size_t begin = at;
            const std::uint32_t c = next_code_point(text_.data(), at);
            std::uint16_t state = group.state[c];
            if (state == kItself) continue;
            if (state == kUnasked) {
                state = ask(group, c);
                if (state == kItself) continue;
            }
            if (state == kDepends) return run_all(group, out);
            out.append(text_.data() + same, begin - same);
            out += group.strings[state - kFirstString];
            same = at;
            changed = true;
        }
        if (!changed) return Outcome::kSame;
        out.append(text_.data() + same, text_.size() - same);
        return Outcome::kChanged;
    }

    Outcome run_all(Group& group, std::string& out) {
        work_.assign(text_);
        apply(group);
        if (work_ == text_) return Outcome::kSame;
        out = work_;
        return Outcome::kChanged;
    }

    // work_ through all steps of the group.
    void apply(Group& group) {
        for (std::size_t i = group.begin; i < group.end; ++i) {
            step_.clear();
            Step& step = list_[i];
            if (step.op == Norm::kMap) {
                step.map.apply(work_, step_);
            } else if (step.op == Norm::kBytes) {
                step.bytes.apply(work_, step_);
            } else {
                step.composer.apply(work_, step_, step.b != 0);
            }
            work_.swap(step_);
        }
    }

    std::uint16_t ask(Group& group, std::uint32_t c) {
        std::string one;
        append_code_point(one, c);
        work_ = one;
        bool depends = false;
        for (std::size_t i = group.begin; i < group.end && !depends; ++i) {
            Step& step = list_[i];
            step_.clear();
            if (step.op == Norm::kMap) {
                step.map.apply(work_, step_);
            } else if (step.op == Norm::kBytes) {
                step.bytes.apply(work_, step_);
            } else {
                for (std::size_t at = 0; at < work_.size() && !depends;)
                    depends = !step.composer.begins_afresh(next_code_point(work_.data(), at));
                step.composer.apply(work_, step_, step.b != 0);
            }
            work_.swap(step_);
        }
        if (depends || group.strings.size() + kFirstString >= kMostStrings) return group.state[c] = kDepends;
        if (work_ == one) return group.state[c] = kItself;
        group.strings.push_back(work_);
        return group.state[c] = static_cast<std::uint16_t>(group.strings.size() - 1 + kFirstString);
    }

    Outcome run_step(Step& step, std::string& out) {
        switch (step.op) {
            case Norm::kPrepend:
                out += step.text;
                out += text_;
                return Outcome::kChanged;
            case Norm::kStrip: return strip(step, out);
            case Norm::kReplace: return replace(step, out);
            case Norm::kGuard: return guard(step);
            default: return Outcome::kUnknown;
        }
    }

    Outcome strip(const Step& step, std::string& out) {
        std::size_t begin = 0, end = text_.size();
        if (step.a) {
            for (std::size_t at = 0; at < end;) {
                const bool space = step.table[next_code_point(text_.data(), at)] != 0;
                if (!space) break;
                begin = at;
            }
        }
        if (step.b) {
            while (end > begin) {
                std::size_t at = end - 1;
                while ((static_cast<std::uint8_t>(text_[at]) & 0xC0) == 0x80) --at;
                std::size_t next = at;
                if (!step.table[next_code_point(text_.data(), next)]) break;
                end = at;
            }
        }
        if (end - begin == text_.size()) return Outcome::kSame;
        out.append(text_.data() + begin, end - begin);
        return Outcome::kChanged;
    }

    Outcome replace(const Step& step, std::string& out) {
        classes_.clear();
        begins_.clear();
        for (std::size_t at = 0; at < text_.size();) {
            begins_.push_back(at);
            classes_.push_back(step.table[next_code_point(text_.data(), at)]);
        }
        begins_.push_back(text_.size());
        matcher_.allow(classes_.size());
        std::size_t same = 0;
        bool changed = false;
        for (std::size_t at = 0; at < classes_.size();) {
            if (!step.program.can_begin(classes_[at])) {
                ++at;
                continue;
            }
            const std::int64_t end = matcher_.match(step.program, classes_.data(), classes_.size(), at);
            if (end == Matcher::kTooMuch) return Outcome::kUnknown;
            if (end <= static_cast<std::int64_t>(at)) {
                ++at;
                continue;
            }
            out.append(text_.data() + same, begins_[at] - same);
            out += step.text;
            at = static_cast<std::size_t>(end);
            same = begins_[at];
            changed = true;
        }
        if (!changed) return Outcome::kSame;
        out.append(text_.data() + same, text_.size() - same);
        return Outcome::kChanged;
    }

    Outcome guard(const Step& step) const {
        bool flagged = false;
        std::size_t size = 6;
        for (std::size_t at = 0; at < text_.size();) {
            const std::size_t begin = at;
            const bool now = step.table[next_code_point(text_.data(), at)] != 0;
            if ((now || flagged) && size + (at - begin) < 6) return Outcome::kUnknown;
            flagged = now;
            size = at - begin;
        }
        return Outcome::kSame;
    }

    std::vector<Step> list_;
    std::vector<Group> groups_;
    std::string_view text_;
    std::string buffers_[2], work_, step_;
    unsigned turn_ = 0;
    std::vector<std::uint8_t> classes_;
    std::vector<std::size_t> begins_;
    Matcher matcher_;
};

}  // namespace trimbed::encode
