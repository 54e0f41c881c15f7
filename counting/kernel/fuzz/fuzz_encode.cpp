// Random pieces through a real encoder: pieces together and one by one must give the same ids, all in the vocabulary.
// Meant for AddressSanitizer and UndefinedBehaviorSanitizer; how to make the recipe's file is in the README.
//
//   fuzz_encode recipe [seconds] [seed]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "../encode/encoder.hpp"

using trimbed::encode::PieceEncoder;

namespace {

constexpr const char* kParts[] = {"a", "e", "th", "ing", " ", "  ", "'s", "0", "12", "\n", "\t", "(", "====", "_", "\0", "é", "e\xCC\x81",
                                  "ß", "ﬁ", "Ω", "漢字", "か", "가", "नि", "ไ", "😀", "\u200d", "▁", "<0x41>", "\xEF\xBF\xBD", "\x80", "\xC3", "\xED\xA0\x80"};

std::string piece(std::mt19937_64& random) {
    std::string out;
    const std::size_t length = random() % 8 == 0 ? random() % 300 : random() % 12;
    while (out.size() < length) {
        if (random() % 8 == 0) {
            out.push_back(static_cast<char>(random()));
        } else {
            out += kParts[random() % std::size(kParts)];
        }
    }
    return out;
}

}  // namespace

int main(int count, char** arguments) {
    if (count < 2) return 2;
    std::ifstream file(arguments[1], std::ios::binary);
    const std::string recipe{std::istreambuf_iterator<char>(file), {}};
    const auto together = PieceEncoder::make(recipe), single = PieceEncoder::make(recipe);
    std::mt19937_64 random(count > 3 ? std::strtoull(arguments[3], nullptr, 10) : 1);
    const auto stop = std::chrono::steady_clock::now() + std::chrono::seconds(count > 2 ? std::atoi(arguments[2]) : 60);
    std::size_t pieces = 0, refused = 0;
    while (std::chrono::steady_clock::now() < stop) {
        // Each text in a block of its own, so that a read behind it is seen.
        std::vector<std::vector<char>> texts;
        std::vector<PieceEncoder::Piece> some;
        for (std::size_t i = random() % 150; i > 0; --i) {
            const std::string text = piece(random);
            texts.emplace_back(text.begin(), text.end());
            some.push_back({texts.back().data(), texts.back().size(), random() % 4 == 0});
        }
        std::size_t next = 0;
        together->encode_many(std::span<const PieceEncoder::Piece>(some), [&](std::size_t i, bool known, std::span<const std::uint32_t> ids) {
            std::vector<std::uint32_t> own;
            const bool good = single->encode(some[i].data, some[i].size, some[i].initial, own);
            bool same = i == next++ && good == known && std::vector<std::uint32_t>(ids.begin(), ids.end()) == own;
            for (const std::uint32_t id : own) same = same && id < single->vocab_size();
            if (!same) {
                std::fprintf(stderr, "piece %zu differs: %.*s\n", pieces + i, static_cast<int>(some[i].size), some[i].data);
                std::abort();
            }
            refused += !known;
        });
        if (next != some.size()) std::abort();
        pieces += some.size();
    }
    std::printf("%zu pieces, %zu of them left to the library\n", pieces, refused);
}
