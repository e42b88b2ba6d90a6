// Any text as a lock record, of an epoch and of version 0.1. An accepted record must be written
// with the fixed length, and must survive a round trip if its texts are plain and short enough.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "checkpoint/directory/lock_record.h"
#include "fuzz/json_text_mutator.h"

namespace stoker {
namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

/// Whether a text is written unchanged: the writer truncates long texts and escapes some
/// characters.
bool is_plain(std::string_view text) {
  constexpr std::size_t kTextBytesMax = 64;
  return text.size() <= kTextBytesMax && std::ranges::all_of(text, [](char c) {
           return c >= ' ' && c <= '~' && c != '"' && c != '\\';
         });
}

void require_one_line(std::string_view text) {
  require(!text.empty() && std::ranges::none_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < ' ' || byte == 0x7f;
  }));
}

void read_text(std::string_view text) {
  if (const auto record = parse_lock_record(text)) {
    const std::string written = format_lock_record(*record);
    require(written.size() == kLockRecordBytes);
    const std::array texts = {
        std::string_view(record->token), std::string_view(record->machine.host),
        std::string_view(record->machine.boot_id), std::string_view(record->job)};
    if (std::ranges::all_of(texts, is_plain)) require(parse_lock_record(written) == record);
    require_one_line(record->who());
  }
  if (const auto old = parse_old_lock_record(text)) require_one_line(old->who());
}

}  // namespace
}  // namespace stoker

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  stoker::read_text(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  return stoker::mutate_json_input(data, size, max_size, seed, 6);
}
