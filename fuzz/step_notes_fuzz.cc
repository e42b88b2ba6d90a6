// Any text as the notes of a step, as it is and with a correct checksum. Accepted notes must
// survive a round trip.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "checkpoint/catalog/notes.h"
#include "fuzz/json_text_mutator.h"
#include "fuzz/manifest_mutator.h"

namespace stoker {
namespace {

constexpr std::uint64_t kStep = 1000;  // the step of the example in the corpus

void require(bool condition) {
  if (!condition) std::abort();
}

/// Compares texts, because NaN is not equal to itself.
void read_text(std::string_view text) {
  const Result<StepNotes> notes = parse_step_notes(text, kStep, "notes.json");
  if (!notes.ok()) {
    require(notes.status().code() == Code::corrupt || notes.status().code() == Code::unsupported);
    require(
        std::ranges::all_of(notes.status().message(), [](char c) { return c >= ' ' && c <= '~'; }));
    return;
  }
  const std::string written = format_step_notes(kStep, *notes);
  const Result<StepNotes> again = parse_step_notes(written, kStep, "notes.json");
  require(again.ok() && format_step_notes(kStep, *again) == written);
}

}  // namespace
}  // namespace stoker

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (text.find("\"xxh3_128\": ") != std::string_view::npos) stoker::read_text(text);
  stoker::read_text(stoker::seal_again(text));
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  return stoker::mutate_json_input(data, size, max_size, seed, 4);
}
