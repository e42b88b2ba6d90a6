// Any text as strict JSON: nlohmann::json must read an accepted text as the same value, and the
// message of a refusal must be printable ASCII.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "formats/json/strict_json.h"
#include "fuzz/json_text_mutator.h"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto parsed = stoker::parse_strict_json(text, "input", {.depth_max = 8});
  if (parsed.ok()) {
    const std::string text_again = parsed->dump({.is_sorted = true});
    const nlohmann::json expected = nlohmann::json::parse(text, nullptr, false);
    require(!expected.is_discarded() && nlohmann::json::parse(text_again) == expected);
    require(stoker::parse_strict_json(text_again, "again")->dump() == text_again);
    return 0;
  }
  // Must only not crash: no other parser here reads NaN.
  (void)stoker::parse_strict_json(text, "input", {.depth_max = 8, .accepts_nonfinite = true});
  const std::string_view message = parsed.status().message();
  require(parsed.status().code() == stoker::Code::corrupt && message.starts_with("input: "));
  require(std::ranges::all_of(message, [](char c) { return c >= ' ' && c <= '~'; }));
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  return stoker::mutate_json_input(data, size, max_size, seed, 12);
}
