// The doctor's parsers of /proc and of the output of commands, on any bytes. The last byte selects
// the parser.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "observe/checks/lustre.h"
#include "observe/mount_table.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size - 1);
  switch (data[size - 1] % 3) {
    case 0: static_cast<void>(stoker::parse_mountinfo(text)); break;
    case 1: static_cast<void>(stoker::parse_lustre_layout(text)); break;
    default: static_cast<void>(stoker::parse_lustre_targets(text));
  }
  return 0;
}
