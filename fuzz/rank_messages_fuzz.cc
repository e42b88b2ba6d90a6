// Any text as a message between the ranks of a save or a restore. An accepted message must survive
// a round trip.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "checkpoint/ranks/message_json.h"
#include "checkpoint/save/save_messages.h"
#include "fuzz/manifest_mutator.h"

namespace stoker {
namespace {

/// Writes an accepted message, reads it again and requires the same text.
template <typename Parse>
void read_as(std::string_view text, const Parse& parse) {
  const auto message = parse(text);
  if (!message.ok()) return;
  const std::string written = format_message(*message);
  const auto again = parse(written);
  if (!again.ok() || format_message(*again) != written) std::abort();
}

void read_text(std::string_view text) {
  read_as(text, parse_begin_message);
  read_as(text, parse_verdict);
  read_as(text, parse_part_message);
  read_as(text, parse_manifest_message);
  read_as(text, parse_end_message);
  MessageMembers members(text);
  static_cast<void>(members.failure());
  static_cast<void>(members.pairs("passed_over"));
  static_cast<void>(members.text("detail"));
  if (members.check().ok() && !members.has("failure")) std::abort();
}

}  // namespace
}  // namespace stoker

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  stoker::read_text(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  return stoker::mutate_json_input(data, size, max_size, seed, 8);
}
