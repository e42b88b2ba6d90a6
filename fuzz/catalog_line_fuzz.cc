// Any text as a line of `.catalog`, with a correct checksum. An accepted line must survive a round
// trip. catalog_fuzz lists a directory with such lines.
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/checksum.h"
#include "checkpoint/manifest/step_summary.h"
#include "fuzz/json_text_mutator.h"
#include "fuzz/sampling.h"

namespace stoker {
namespace {

void read_line(std::string_view text) {
  if (is_one_of(16, text)) static_cast<void>(parse_catalog_line(text));
  const std::string digest = xxh3_128(std::as_bytes(std::span(text))).hex();
  const std::optional<CatalogLine> line = parse_catalog_line(digest + " " + std::string(text));
  if (!line) return;
  std::string written = format_catalog_line(*line);
  written.pop_back();  // the line break
  const std::optional<CatalogLine> again = parse_catalog_line(written);
  if (!again || format_catalog_line(*again) != written + "\n") std::abort();
}

}  // namespace
}  // namespace stoker

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  stoker::read_line(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  return stoker::mutate_json_input(data, size, max_size, seed, 4);
}
