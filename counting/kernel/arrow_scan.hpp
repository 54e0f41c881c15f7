// Runs a scan over Arrow arrays and says which row was at fault. Knows nothing of Python.
#pragma once

#include <cstdint>
#include <string>

#include "arrow_text.hpp"
#include "scan.hpp"

namespace trimbed {

// A row that can't be counted.
struct BadRow : std::runtime_error {
  BadRow(int64_t row, const std::string& why) : std::runtime_error("row " + std::to_string(row) + ": " + why) {}
};

// Scans all rows of an array. Throws BadRow, whose row counts from the array's start plus `first_row`.
inline void scan_array(Scan& scan, const ArrowArray& array, TextLayout layout, int64_t first_row) {
  int64_t current = 0;
  try {
    each_row(array, layout, [&](const TextRow& row) {
      current = row.row;
      scan.document(row.data, row.size, row.limit);
    });
  } catch (const InvalidText& error) {
    throw BadRow(first_row + current, error.what());
  } catch (const std::length_error& error) {
    throw BadRow(first_row + current, error.what());
  }
  scan.flush();  // the array's memory goes away with it
}

// Scans the arrays of a stream, one after the other. The stream is the caller's to release.
inline void scan_stream(Scan& scan, ArrowArrayStream& stream) {
  const auto failed = [&] {
    const char* why = stream.get_last_error(&stream);
    return std::runtime_error(std::string("the Arrow stream failed: ") + (why ? why : "no reason given"));
  };
  Owned<ArrowSchema> schema;
  if (stream.get_schema(&stream, schema.get()) != 0) throw failed();
  const TextLayout layout = layout_of(*schema.get());
  int64_t first_row = 0;
  for (;;) {
    Owned<ArrowArray> array;
    if (stream.get_next(&stream, array.get()) != 0) throw failed();
    if (array.get()->release == nullptr) return;
    scan_array(scan, *array.get(), layout, first_row);
    first_row += array.get()->length;
  }
}

}  // namespace trimbed
