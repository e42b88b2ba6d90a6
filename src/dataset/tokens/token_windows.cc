#include "dataset/tokens/token_windows.h"

#include <algorithm>
#include <limits>

namespace stoker {
namespace {

Status refuse(std::string why) {
  return Status(Code::invalid_argument, "token windows: " + std::move(why));
}

/// The tokens of a shard, one sequence after the other.
Result<ByteRange> stream_of(const Index& index, const IndexedShard& shard) {
  if (shard.sample_count == 0) return ByteRange{};
  STOKER_ASSIGN(const SampleLocation first, index.locate(shard.first_sample));
  STOKER_ASSIGN(const SampleLocation last,
                index.locate(shard.first_sample + shard.sample_count - 1));
  const std::uint64_t begin = first.record.offset_bytes;
  if (last.record.end_bytes() < begin)
    return Status(Code::corrupt, "index: the sequences of " + shard.name +
                                     " are not in order; rebuild it with `stoker index`");
  return ByteRange{begin, last.record.end_bytes() - begin};
}

}  // namespace

Result<TokenWindows> TokenWindows::make(const ShardDataset& dataset, const Options& options) {
  const std::optional<Dtype> dtype = dataset.source().token_dtype();
  if (!dtype)
    return refuse("the shards are " + std::string(dataset.source().format()) +
                  ", not tokens (megatron, npy, raw, counted, shard001, or litdata's)");
  if (options.window == 0) return refuse("the window has 0 tokens");
  TokenWindows windows;
  windows.options_ = options;
  if (options.stride == 0) windows.options_.stride = options.window;
  windows.dtype_ = *dtype;
  const std::uint64_t item_bytes = dtype_size_bytes(*dtype);
  const std::uint64_t stride = windows.options_.stride;
  std::uint64_t row_bytes = 0;
  if (__builtin_add_overflow(options.window, options.extra, &windows.tokens_per_row_) ||
      __builtin_mul_overflow(windows.tokens_per_row_, item_bytes, &row_bytes) ||
      __builtin_mul_overflow(stride, item_bytes, &windows.stride_bytes_))
    return refuse("window, stride and extra are too large");
  const Index& index = dataset.index();
  for (std::uint32_t shard = 0; shard < index.shards().size(); ++shard) {
    STOKER_ASSIGN(const ByteRange stream, stream_of(index, index.shards()[shard]));
    const std::uint64_t tokens = stream.size_bytes / item_bytes;
    windows.token_count_ += tokens;  // no overflow: a shard's size is below 2^48
    if (tokens < windows.tokens_per_row_) continue;
    windows.streams_.push_back(
        {.first_unit = windows.count_, .offset_bytes = stream.offset_bytes, .shard = shard});
    windows.count_ += (tokens - windows.tokens_per_row_) / stride + 1;
  }
  if (windows.count_ == 0)
    return refuse("no shard has the " + std::to_string(windows.tokens_per_row_) +
                  " tokens of one window; use a shorter window");
  return windows;
}

Result<TokenSpan> TokenWindows::locate(std::uint64_t unit) const {
  if (unit >= count_)
    return refuse("window " + std::to_string(unit) + " of " + std::to_string(count_) +
                  " does not exist");
  const auto after = std::upper_bound(
      streams_.begin(), streams_.end(), unit,
      [](std::uint64_t wanted, const Stream& stream) { return wanted < stream.first_unit; });
  const Stream& stream = *(after - 1);
  return TokenSpan{
      .shard = stream.shard,
      .range = {stream.offset_bytes + (unit - stream.first_unit) * stride_bytes_, row_bytes()}};
}

}  // namespace stoker
