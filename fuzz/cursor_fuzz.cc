// Any bytes as a cursor, as JSON of a cursor, and as a cursor with a correct checksum. An accepted
// cursor must survive a round trip in both encodings, and its order and batches must be valid at
// its position.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/checksum.h"
#include "dataset/order/batch_cut.h"
#include "dataset/order/order.h"
#include "fuzz/json_text_mutator.h"
#include "stoker/cursor.h"

namespace stoker {
namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void use(const Cursor& cursor) {
  const auto order = make_order(cursor.order);
  require(order.ok());
  const SampleRef ref = (*order)->at(cursor.epoch, cursor.position);
  require(ref.dataset == 0 && ref.sample < cursor.order.sample_count);
  const std::uint64_t inside = cursor.position % cursor.order.sample_count;
  if (cursor.order.shuffle != Shuffle::resampled)
    require((*order)->next_use(cursor.epoch, inside, ref) == 0);
  const auto cut = BatchCut::make({.global_batch_size = cursor.global_batch_size,
                                   .tail = cursor.tail,
                                   .epoch_samples = cursor.order.sample_count});
  require(cut.ok());
  require(cut->next_position(cursor.position) <= cursor.order.sample_count);
  require(cut->part(cursor.position).valid_count <= cut->part(cursor.position).count);
}

void check(const Result<Cursor>& cursor) {
  if (!cursor.ok()) {
    require(cursor.status().code() == Code::corrupt || cursor.status().code() == Code::unsupported);
    require(!cursor.status().message().empty());
    return;
  }
  const auto bytes = decode_cursor(encode_cursor(*cursor));
  const auto json = parse_cursor(format_cursor(*cursor));
  require(bytes.ok() && *bytes == *cursor);
  require(json.ok() && *json == *cursor);
  require(check_cursor(*cursor, *json).ok());
  use(*cursor);
}

}  // namespace
}  // namespace stoker

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  stoker::check(stoker::decode_cursor(bytes));
  stoker::check(stoker::parse_cursor({reinterpret_cast<const char*>(data), size}));
  constexpr std::size_t kSummed = stoker::kCursorBytes - 8;
  if (size < kSummed) return 0;
  std::vector<std::byte> summed(bytes.begin(), bytes.begin() + kSummed);
  const std::uint64_t sum = stoker::xxh3_128(summed).low;
  for (unsigned shift = 0; shift < 64; shift += 8)
    summed.push_back(static_cast<std::byte>(sum >> shift));
  stoker::check(stoker::decode_cursor(summed));
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  const bool is_json = size > 0 && data[0] == '{';
  return stoker::mutate_json_input(data, size, max_size, seed, is_json ? 6 : 16);
}
