// What ranks say to each other in a meeting, written by anybody: claims, welcomes, refusals, under
// any names. Whoever meets there gets an error or the session; a rank is never let in by what is
// not meant for it.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/meeting.h"
#include "fuzz/scratch_directory.h"
#include "io/file_ops.h"

namespace stoker {
namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

/// The first line is what the names end with; the rest is in every file.
void meet(std::string_view text) {
  static ScratchDirectory scratch;
  static const std::string folder = ".meeting-w";
  static const Result<CheckpointDirectory> place =
      CheckpointDirectory::open(posix_file_ops(), scratch.path());
  require(place.ok());
  scratch.make(folder);
  scratch.empty(folder);
  const std::size_t end = std::min(text.find('\n'), text.size());
  std::string ending(text.substr(0, std::min<std::size_t>(end, 100)));
  std::erase_if(ending, [](char c) { return c == '/' || c == '\0'; });
  text.remove_prefix(std::min(end + 1, text.size()));
  for (const char* prefix : {"claim-1-", "claim-", "welcome-", "ready-1-", "refused-0-"})
    scratch.write(folder + "/" + prefix + ending, text);
  for (const std::uint32_t rank : {0U, 1U}) {
    const auto met = Meeting::meet({.place = *place,
                                    .word = "w",
                                    .rank = rank,
                                    .world_size = 2,
                                    .ttl = nanoseconds(0),
                                    .settle = nanoseconds(0)},
                                   Clock::now());
    require(!met.ok());  // nobody can know the nonce or the session
    require(std::ranges::none_of(met.status().message(), [](char c) {
      const auto byte = static_cast<unsigned char>(c);
      return byte < ' ' || byte == 0x7f;
    }));
  }
}

}  // namespace
}  // namespace stoker

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  stoker::meet(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
