// What the doctor parses: text from /proc and from other people's commands, on any bytes.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "observe/lustre.h"
#include "observe/mount_table.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static_cast<void>(stoker::parse_mountinfo(text));
  static_cast<void>(stoker::parse_lustre_layout(text));
  static_cast<void>(stoker::parse_lustre_targets(text));
  return 0;
}
