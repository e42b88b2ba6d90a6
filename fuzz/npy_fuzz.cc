// Any bytes as a .npy file: nothing crashes, and the header of an accepted array must survive a
// round trip.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "formats/arrays/npy.h"

namespace stoker {
namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void read_array(std::span<const std::byte> file) {
  const Result<NpyArray> array = parse_npy(file, file.size());
  if (!array.ok()) {
    require(array.status().code() == Code::corrupt || array.status().code() == Code::unsupported);
    const std::string_view message = array.status().message();
    require(std::ranges::all_of(message, [](char c) { return c >= ' ' && c <= '~'; }));
    return;
  }
  const std::uint64_t data_bytes = array->element_count * dtype_size_bytes(array->dtype);
  require(array->data_offset_bytes + data_bytes == file.size());
  const Result<std::vector<std::byte>> head = make_npy_head(array->dtype, array->shape);
  require(head.ok() && head->size() % 64 == 0);
  const Result<NpyArray> again = parse_npy(*head, head->size() + data_bytes);
  require(again.ok() && again->dtype == array->dtype && again->shape == array->shape);
}

}  // namespace
}  // namespace stoker

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  stoker::read_array(std::as_bytes(std::span(data, size)));
  return 0;
}
