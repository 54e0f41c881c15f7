// Python's way to the piece encoders: a recipe in, ids out. No logic here.
#include <nanobind/nanobind.h>
#include <nanobind/stl/unique_ptr.h>

#include <cstring>
#include <span>
#include <vector>

#include "encode/encoder.hpp"

namespace nb = nanobind;
using trimbed::encode::PieceEncoder;
using trimbed::encode::RecipeError;

void bind_encoders(nb::module_& m) {
    nb::exception<RecipeError>(m, "RecipeError", PyExc_ValueError);

    nb::class_<PieceEncoder>(m, "PieceEncoder")
        .def_static(
            "make", [](nb::bytes recipe) { return PieceEncoder::make({recipe.c_str(), recipe.size()}); },
            nb::arg("recipe"), "An encoder from a packed recipe. Raises RecipeError where it isn't sound.")
        .def_prop_ro("vocab_size", &PieceEncoder::vocab_size)
        .def(
            "encode",
            [](PieceEncoder& self, nb::bytes piece, bool initial) -> nb::object {
                std::vector<std::uint32_t> ids;
                if (!self.encode(piece.c_str(), piece.size(), initial, ids)) return nb::none();
                nb::list out;
                for (const std::uint32_t id : ids) out.append(id);
                return out;
            },
            nb::arg("piece"), nb::arg("initial") = false,
            "The ids of one piece (UTF-8), or None where only the library can tell.")
        .def(
            "encode_many",
            [](PieceEncoder& self, nb::bytes pieces, nb::bytes ends, bool initial) {
                // `ends`: u64 each, where each piece ends in `pieces`.
                std::vector<std::uint32_t> ids;
                std::vector<std::uint64_t> id_ends;
                const char* data = pieces.c_str();
                const std::size_t size = pieces.size(), count = ends.size() / 8;
                const char* end_data = ends.c_str();
                std::uint64_t unknown = 0;
                {
                    nb::gil_scoped_release release;
                    id_ends.reserve(count);
                    std::vector<PieceEncoder::Piece> some;
                    std::uint64_t begin = 0;
                    for (std::size_t i = 0; i < count; ++i) {
                        std::uint64_t end;
                        std::memcpy(&end, end_data + 8 * i, 8);
                        if (end < begin || end > size) break;
                        some.push_back({data + begin, end - begin, initial});
                        begin = end;
                        if (some.size() < PieceEncoder::kTogether && i + 1 < count) continue;
                        const auto take = [&](std::size_t, bool known, std::span<const std::uint32_t> own) {
                            ids.insert(ids.end(), own.begin(), own.end());
                            unknown += !known;
                            id_ends.push_back(ids.size() << 1 | (known ? 0 : 1));
                        };
                        self.encode_many(std::span<const PieceEncoder::Piece>(some), take);
                        some.clear();
                    }
                }
                if (id_ends.size() != count) throw nb::value_error("the pieces' ends are not ascending or run over");
                return nb::make_tuple(
                    nb::bytes(reinterpret_cast<const char*>(ids.data()), ids.size() * 4),
                    nb::bytes(reinterpret_cast<const char*>(id_ends.data()), id_ends.size() * 8), unknown);
            },
            nb::arg("pieces"), nb::arg("ends"), nb::arg("initial") = false,
            "Many pieces at once: (ids as u32 bytes, for each piece u64 (end of its ids << 1 | 1 where only the library "
            "can tell), number of those).");
}
