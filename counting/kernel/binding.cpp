// The Python face of the kernel. Conversions, the GIL, and no logic.
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "arrow_scan.hpp"
#include "scan_tally.hpp"

namespace nb = nanobind;
using namespace trimbed;

#if __has_include("encode/encoder.hpp")
#include "encode/encoder.hpp"
#define TRIMBED_ENCODERS 1
void bind_encoders(nb::module_& module);
#endif

namespace {

template <class T>
using Column = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Matrix = nb::ndarray<const uint8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Token = std::tuple<nb::bytes, uint32_t, bool, bool, bool, int>;

template <class T>
std::vector<T> copy(const Column<T>& column) {
  return {column.data(), column.data() + column.shape(0)};
}

template <class T>
nb::ndarray<nb::numpy, T, nb::ndim<1>> give(std::vector<T> values) {
  auto* owned = new std::vector<T>(std::move(values));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return {owned->data(), {owned->size()}, owner};
}

template <class T>
T* from_capsule(nb::handle capsule, const char* name) {
  void* pointer = PyCapsule_GetPointer(capsule.ptr(), name);
  if (pointer == nullptr) nb::raise_python_error();
  return static_cast<T*>(pointer);
}

std::unique_ptr<ScanPlan> make_plan(const Column<uint8_t>& classes, const Matrix& cut, const Column<uint64_t>& joined,
                                    const std::vector<Token>& added, const Column<uint8_t>& word, bool initial,
                                    bool initial_once, bool initial_after_stage_1) {
  if (cut.shape(0) != cut.shape(1)) throw std::invalid_argument("cut must be a square table");
  std::vector<AddedToken> tokens;
  for (const auto& [content, id, single_word, lstrip, rstrip, stage] : added)
    tokens.push_back({std::string(content.c_str(), content.size()), id, single_word, lstrip, rstrip, stage});
  return std::make_unique<ScanPlan>(copy(classes), std::vector<uint8_t>(cut.data(), cut.data() + cut.size()), cut.shape(0),
                                    copy(joined), tokens, copy(word), InitialRule{initial, initial_once, initial_after_stage_1});
}

// None refuses every piece, and then all are encoded by the library.
EncodePieces encode_with([[maybe_unused]] nb::handle encoder) {
#ifdef TRIMBED_ENCODERS
  if (!encoder.is_none()) {
    auto& native = nb::cast<trimbed::encode::PieceEncoder&>(encoder);
    return [&native](std::span<const PieceText> pieces, const TakeIds& take) { native.encode_many(pieces, take); };
  }
#endif
  return {};
}

// A tally with what must live as long as it does.
struct BoundTally {
  nb::object plan_owner, table_owner, encoder_owner;
  const ScanPlan& plan;
  PieceTable& table;
  PieceTally tally;
  Totals totals;

  BoundTally(nb::object plan_object, nb::object table_object, nb::object encoder, size_t id_count, size_t keep_pieces)
      : plan_owner(plan_object), table_owner(table_object), encoder_owner(encoder), plan(nb::cast<const ScanPlan&>(plan_object)),
        table(nb::cast<PieceTable&>(table_object)), tally(table, encode_with(encoder), id_count, keep_pieces) {
    totals.added.resize(plan.added_count());
  }

  Scan scan(const nb::callable& make_room) {
    return Scan(plan, table, totals, [&make_room] {
      nb::gil_scoped_acquire held;
      make_room();
    });
  }
};

}  // namespace

NB_MODULE(_kernel, module) {
  module.doc() = "Cuts Arrow text by a kernel plan, counts distinct pieces, encodes each once.";
  nb::exception<NotText>(module, "NotText", PyExc_TypeError);
  nb::exception<BadRow>(module, "BadRow", PyExc_ValueError);

  nb::class_<ScanPlan>(module, "Plan")
      .def(nb::new_(&make_plan), nb::arg("classes").noconvert(), nb::arg("cut").noconvert(), nb::arg("joined").noconvert(),
           nb::arg("added"), nb::arg("word").noconvert(), nb::arg("initial"), nb::arg("initial_once"),
           nb::arg("initial_after_stage_1"));

  nb::class_<PieceTable>(module, "Table")
      .def(nb::init<size_t, size_t>(), nb::arg("bytes"), nb::arg("pieces"))
      .def_prop_ro("size", &PieceTable::size)
      .def_prop_ro("memory", &PieceTable::memory);

  nb::class_<BoundTally>(module, "Tally")
      .def(nb::init<nb::object, nb::object, nb::object, size_t, size_t>(), nb::arg("plan"), nb::arg("table"),
           nb::arg("encoder").none(), nb::arg("id_count"), nb::arg("keep_pieces"))
      .def("scan_array",
           [](BoundTally& self, nb::handle schema, nb::handle array, const nb::callable& make_room) {
             const TextLayout layout = layout_of(*from_capsule<ArrowSchema>(schema, "arrow_schema"));
             Owned<ArrowArray> owned(from_capsule<ArrowArray>(array, "arrow_array"));
             Scan scan = self.scan(make_room);
             nb::gil_scoped_release released;
             scan_array(scan, *owned.get(), layout, 0);
           },
           nb::arg("schema"), nb::arg("array"), nb::arg("make_room"))
      .def("scan_stream",
           [](BoundTally& self, nb::handle stream, const nb::callable& make_room) {
             Owned<ArrowArrayStream> owned(from_capsule<ArrowArrayStream>(stream, "arrow_array_stream"));
             Scan scan = self.scan(make_room);
             nb::gil_scoped_release released;
             scan_stream(scan, *owned.get());
           },
           nb::arg("stream"), nb::arg("make_room"))
      .def("settle", [](BoundTally& self, int run_file) { return self.tally.settle(run_file); }, nb::arg("run_file"),
           nb::call_guard<nb::gil_scoped_release>())
      .def("pending",
           [](const BoundTally& self, size_t most, size_t bytes) {
             PieceTally::Batch batch = self.tally.pending(most, bytes);
             return nb::make_tuple(nb::bytes(batch.data.data(), batch.data.size()), give(std::move(batch.offsets)),
                                   give(std::move(batch.initial)));
           },
           nb::arg("most"), nb::arg("bytes"))
      .def("resolve",
           [](BoundTally& self, const Column<uint32_t>& ids, const Column<int64_t>& sizes) {
             self.tally.resolve({ids.data(), ids.shape(0)}, {sizes.data(), sizes.shape(0)});
           },
           nb::arg("ids").noconvert(), nb::arg("sizes").noconvert())
      .def("make_room", [](BoundTally& self) { self.tally.make_room(); }, nb::call_guard<nb::gil_scoped_release>())
      .def("end", [](BoundTally& self) { self.tally.end(); }, nb::call_guard<nb::gil_scoped_release>())
      .def("counts", [](BoundTally& self) { return give(self.tally.counts()); })
      .def("added", [](BoundTally& self) { return give(self.totals.added); })
      .def("kept",
           [](BoundTally& self) {
             KeptPieces kept = self.tally.kept();
             return nb::make_tuple(nb::bytes(kept.data.data(), kept.data.size()), give(std::move(kept.offsets)),
                                   give(std::move(kept.initial)), give(std::move(kept.counts)), kept.dropped, kept.dropped_count);
           })
      .def("totals",
           [](const BoundTally& self) {
             nb::dict out;
             out["documents"] = self.totals.documents;
             out["empty"] = self.totals.empty;
             out["bytes"] = self.totals.bytes;
             out["pieces"] = self.totals.pieces;
             return out;
           })
      .def("stats", [](BoundTally& self) {
        const TallyStats& stats = self.tally.stats();
        nb::dict out;
        out["encoded_native"] = stats.encoded_native;
        out["encoded_library"] = stats.encoded_library;
        out["encoded_library_occurrences"] = stats.encoded_library_occurrences;
        out["remembered"] = stats.remembered;
        out["rooms_made"] = stats.rooms_made;
        return out;
      });

#ifdef TRIMBED_ENCODERS
  bind_encoders(module);
#endif
}
