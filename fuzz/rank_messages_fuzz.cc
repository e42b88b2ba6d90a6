// Any text as a message between the ranks of a save or a restore. An accepted message must survive
// a round trip.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "checkpoint/ranks/message_json.h"
#include "checkpoint/restore/restore_places.h"
#include "checkpoint/save/save_messages.h"
#include "fuzz/json_text_mutator.h"
#include "fuzz/sampling.h"

namespace stoker {
namespace {

std::string format_message(const HeldCheckpoints& message) {
  return format_held(message);
}

/// Writes an accepted message, reads it again and requires the same text.
template <typename Parse>
void read_as(std::string_view text, const Parse& parse) {
  const auto message = parse(text);
  if (!message.ok()) return;
  const std::string written = format_message(*message);
  const auto again = parse(written);
  if (!again.ok() || format_message(*again) != written) std::abort();
}

/// Reads members as a restore does. After one that is wrong, the others are not looked at.
void read_members(std::string_view text) {
  MessageMembers members(text);
  static_cast<void>(members.failure());
  if (members.check().ok() && !members.has("failure")) std::abort();
  if (members.has("passed_over")) static_cast<void>(members.pairs("passed_over"));
  if (members.has("rank")) static_cast<void>(members.number("rank"));
  static_cast<void>(members.text("detail"));
  static_cast<void>(members.number("is_callers"));
  static_cast<void>(members.texts("lacks"));
}

/// Reads a message only as those kinds whose own member it has; some messages as all kinds.
void read_text(std::string_view text) {
  const bool is_any = is_one_of(16, text);
  const auto names = [&](std::string_view member) {
    return is_any || text.find(member) != std::string_view::npos;
  };
  if (names("\"call\"")) read_as(text, parse_begin_message);
  if (names("\"action\"")) read_as(text, parse_verdict);
  if (names("\"outcome\"")) read_as(text, parse_end_message);
  if (names("\"valued\"")) read_as(text, parse_place_report);
  if (names("\"lines\"")) read_as(text, parse_held);
  if (is_any) read_as(text, parse_part_message);
  if (is_any) read_as(text, parse_manifest_message);
  read_members(text);
}

}  // namespace
}  // namespace stoker

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  stoker::read_text(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  return stoker::mutate_json_input(data, size, max_size, seed, 4);
}
