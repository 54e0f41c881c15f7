// A backtracking matcher over classes of code points: leftmost match, first alternative first, as Oniguruma does it.
// Knows no characters: a text is an array of class numbers, and a set is a row of 256 flags over them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "recipe.hpp"

namespace trimbed::encode {

// Instructions, four i32 each: op, a, b, c. The Python side (encoders/program.py) compiles them.
enum class Op : std::int32_t {
    kMatch = 0,       // the (sub)program matched
    kSet = 1,         // one position in set a
    kLoop = 2,        // set (a & 0xFFFF), at least b times, at most c (-1: any number); a >> 16: 0 greedy 1 lazy 2 possessive
    kSplit = 3,       // try a; if that fails, b. c: set that the first position of a must be in, -1: no telling
    kJump = 4,        // go to a
    kAhead = 5,       // the subprogram that follows matches here (b 0) or doesn't (b 1); then go on at a, not moving
    kBehindSet = 6,   // the position before is in set a (b 0), or isn't or there is none (b 1)
    kAtomic = 7,      // the subprogram that follows matches here, its first way only; then go on at a, behind it
    kFail = 8,
};

class Program {
public:
    Program() = default;
    Program(const Recipe& recipe, const std::string& name)
        : code_(recipe.array<std::int32_t>(name + ".code")), sets_(recipe.array<std::uint8_t>(name + ".sets")) {
        require(code_.size() % 4 == 0 && !code_.empty() && code_.size() < 4000000, name + ".code has a wrong length");
        require(sets_.size() % 256 == 0 && sets_.size() >= 256, name + ".sets has a wrong length");
        const auto size = static_cast<std::int32_t>(code_.size() / 4);
        const auto sets = static_cast<std::int32_t>(sets_.size() / 256);
        const auto target = [&](std::int32_t at) { require(at >= 0 && at < size, name + " jumps outside"); };
        const auto set = [&](std::int32_t s) { require(s >= 0 && s < sets, name + " has no such set"); };
        for (std::int32_t pc = 0; pc < size; ++pc) {
            const std::int32_t a = code_[4 * pc + 1], b = code_[4 * pc + 2], c = code_[4 * pc + 3];
            switch (static_cast<Op>(code_[4 * pc])) {
                case Op::kMatch:
                case Op::kFail: break;
                case Op::kSet:
                case Op::kBehindSet: set(a); break;
                case Op::kLoop:
                    require(a >= 0 && a >> 16 <= 2 && b >= 0 && c >= -1, name + " has a wrong loop");
                    set(a & 0xFFFF);
                    break;
                case Op::kSplit:
                    target(a);
                    target(b);
                    if (c != -1) set(c);
                    break;
                case Op::kJump: target(a); break;
                case Op::kAhead:
                case Op::kAtomic: target(a); break;
                default: require(false, name + " has an unknown instruction");
            }
        }
        // Falling off the end is impossible only if the last instruction never goes on to the next.
        const auto last = static_cast<Op>(code_[4 * (size - 1)]);
        require(last == Op::kMatch || last == Op::kJump || last == Op::kFail, name + " runs off its end");
        // Set 0 holds the classes that a match can begin with.
    }

    bool can_begin(std::uint8_t cls) const { return sets_[cls]; }

    friend class Matcher;

private:
    std::vector<std::int32_t> code_;
    std::vector<std::uint8_t> sets_;
};

class Matcher {
public:
    static constexpr std::int64_t kNoMatch = -1, kTooMuch = -2;

    // How many steps the matches of one text may take before its piece is left to the library.
    void allow(std::size_t size) { budget_ = 200000 + 256 * static_cast<std::int64_t>(size); }

    // End of the match that begins at `at` in text[0, size), kNoMatch, or kTooMuch (budget gone; nothing is known).
    std::int64_t match(const Program& program, const std::uint8_t* text, std::size_t size, std::size_t at) {
        stack_.clear();
        return run(program, text, static_cast<std::int64_t>(size), 0, static_cast<std::int64_t>(at), 0);
    }

private:
    struct Frame {
        std::int32_t pc;
        std::int64_t at, limit;  // other ways to go on at pc: at, then on towards limit (step +-1); equal: only this one
    };

    std::int64_t run(const Program& program, const std::uint8_t* text, std::int64_t size, std::int32_t pc,
                     std::int64_t at, int depth) {
        if (depth > 16) return kTooMuch;
        const std::int32_t* code = program.code_.data();
        const std::uint8_t* sets = program.sets_.data();
        const std::size_t base = stack_.size();
        for (;;) {
            if (--budget_ < 0) return kTooMuch;
            const std::int32_t a = code[4 * pc + 1], b = code[4 * pc + 2], c = code[4 * pc + 3];
            bool failed = false;
            switch (static_cast<Op>(code[4 * pc])) {
                case Op::kMatch: stack_.resize(base); return at;
                case Op::kFail: failed = true; break;
                case Op::kSet:
                    if (at < size && sets[256 * a + text[at]]) {
                        ++at;
                        ++pc;
                    } else {
                        failed = true;
                    }
                    break;
                case Op::kLoop: {
                    const std::uint8_t* set = sets + 256 * (a & 0xFFFF);
                    const std::int32_t kind = a >> 16;
                    const std::int64_t room = size - at;
                    const std::int64_t most = c < 0 || c > room ? room : c;
                    if (b > most) {
                        failed = true;
                        break;
                    }
                    const std::int64_t least_end = at + b;
                    std::int64_t end = at;
                    const std::int64_t stop = kind == 1 ? least_end : at + most;
                    while (end < stop && set[text[end]]) ++end;
                    budget_ -= (end - at) >> 3;
                    if (end < least_end) {
                        failed = true;
                        break;
                    }
                    ++pc;
                    if (kind == 0 && end > least_end) stack_.push_back({pc, end - 1, least_end});
                    if (kind == 1) {
                        std::int64_t longest = end;
                        while (longest < at + most && set[text[longest]]) ++longest;
                        if (longest > end) stack_.push_back({pc, end + 1, longest});
                    }
                    at = end;
                    break;
                }
                case Op::kSplit:
                    if (c >= 0 && !(at < size && sets[256 * c + text[at]])) {
                        pc = b;
                    } else {
                        stack_.push_back({b, at, at});
                        pc = a;
                    }
                    break;
                case Op::kJump: pc = a; break;
                case Op::kAhead: {
                    const std::int64_t end = run(program, text, size, pc + 1, at, depth + 1);
                    if (end == kTooMuch) return kTooMuch;
                    if ((end != kNoMatch) != (b == 0)) {
                        failed = true;
                    } else {
                        pc = a;
                    }
                    break;
                }
                case Op::kBehindSet:
                    if ((at > 0 && sets[256 * a + text[at - 1]]) == (b == 0)) {
                        ++pc;
                    } else {
                        failed = true;
                    }
                    break;
                case Op::kAtomic: {
                    const std::int64_t end = run(program, text, size, pc + 1, at, depth + 1);
                    if (end == kTooMuch) return kTooMuch;
                    if (end == kNoMatch) {
                        failed = true;
                    } else {
                        at = end;
                        pc = a;
                    }
                    break;
                }
            }
            if (failed) {
                if (stack_.size() == base) return kNoMatch;
                Frame& frame = stack_.back();
                pc = frame.pc;
                at = frame.at;
                if (frame.at == frame.limit) {
                    stack_.pop_back();
                } else {
                    frame.at += frame.at < frame.limit ? 1 : -1;
                }
            }
        }
    }

    std::vector<Frame> stack_;
    std::int64_t budget_ = 0;
};

}  // namespace trimbed::encode
