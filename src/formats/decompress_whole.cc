#include "formats/decompress_whole.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#ifdef STOKER_HAVE_BROTLI
#include <brotli/decode.h>
#endif
#ifdef STOKER_HAVE_BZIP2
#include <bzlib.h>
#endif
#ifdef STOKER_HAVE_SNAPPY
#include <snappy-c.h>
#endif

namespace stoker::internal {
namespace {

using Output = std::vector<std::byte>;

[[maybe_unused]] constexpr std::size_t kOutputBytes = std::size_t{128} << 10;

Status corrupt_at(std::uint64_t input_bytes, std::string_view reason) {
  return {Code::corrupt, fmt::format("compressed byte {}: {}", input_bytes, reason)};
}

[[maybe_unused]] Status lacking(std::string_view codec, std::string_view package) {
  return {
      Code::unsupported,
      fmt::format("this build of Stoker cannot read {}: install {} and build it again, or write "
                  "the shards with zstd",
                  codec, package)};
}

/// Output that grows piece by piece, up to the limits.
class GrowingOutput {
 public:
  explicit GrowingOutput(const DecompressLimits& limits) : limits_(limits) {}

  std::span<std::byte> room() { return {memory_.get(), kOutputBytes}; }

  /// Appends the first `size` bytes of room().
  Status take(std::size_t size, std::uint64_t input_bytes) {
    STOKER_TRY(check_output(limits_, input_bytes, bytes_.size() + size));
    const std::span<std::byte> made = room().first(size);
    bytes_.insert(bytes_.end(), made.begin(), made.end());
    return {};
  }

  Output bytes() && { return std::move(bytes_); }

 private:
  const DecompressLimits& limits_;
  std::unique_ptr<std::byte[]> memory_ = std::make_unique_for_overwrite<std::byte[]>(kOutputBytes);
  Output bytes_;
};

}  // namespace

Status check_output(const DecompressLimits& limits, std::uint64_t input_bytes,
                    std::uint64_t output_bytes) {
  const auto refuse = [&](std::uint64_t limit, std::string_view what) {
    return corrupt_at(input_bytes, fmt::format("decompresses to more than {} {}", limit, what));
  };
  if (output_bytes > limits.output_bytes_max) return refuse(limits.output_bytes_max, "bytes");
  if (output_bytes > limits.ratio_free_bytes && output_bytes / limits.ratio_max > input_bytes)
    return refuse(limits.ratio_max, "times its size");
  return {};
}

#ifdef STOKER_HAVE_BROTLI
Result<Output> decompress_brotli(std::span<const std::byte> input, const DecompressLimits& limits) {
  const std::unique_ptr<BrotliDecoderState, void (*)(BrotliDecoderState*)> state(
      BrotliDecoderCreateInstance(nullptr, nullptr, nullptr), BrotliDecoderDestroyInstance);
  if (state == nullptr) return Status(Code::unsupported, "brotli: cannot start");
  GrowingOutput output(limits);
  std::size_t left = input.size();
  const auto* next = reinterpret_cast<const std::uint8_t*>(input.data());
  for (;;) {
    const std::span<std::byte> room = output.room();
    std::size_t room_left = room.size();
    auto* out = reinterpret_cast<std::uint8_t*>(room.data());
    const BrotliDecoderResult result =
        BrotliDecoderDecompressStream(state.get(), &left, &next, &room_left, &out, nullptr);
    const std::uint64_t used = input.size() - left;
    STOKER_TRY(output.take(room.size() - room_left, used));
    switch (result) {
      case BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT: continue;
      case BROTLI_DECODER_RESULT_SUCCESS:
        if (left != 0) return corrupt_at(used, "brotli: bytes are left after the end");
        return std::move(output).bytes();
      case BROTLI_DECODER_RESULT_NEEDS_MORE_INPUT:
        return corrupt_at(used, "the compressed data ends too early");
      case BROTLI_DECODER_RESULT_ERROR: break;
    }
    return corrupt_at(used, fmt::format("brotli: {}", BrotliDecoderErrorString(
                                                          BrotliDecoderGetErrorCode(state.get()))));
  }
}
#else
Result<Output> decompress_brotli(std::span<const std::byte> /*input*/,
                                 const DecompressLimits& /*limits*/) {
  return lacking("brotli", "libbrotli-dev");
}
#endif

#ifdef STOKER_HAVE_BZIP2
Result<Output> decompress_bzip2(std::span<const std::byte> input, const DecompressLimits& limits) {
  GrowingOutput output(limits);
  std::uint64_t used = 0;
  do {
    bz_stream stream{};
    if (BZ2_bzDecompressInit(&stream, 0, 0) != BZ_OK)
      return Status(Code::unsupported, "bzip2: cannot start");
    const std::unique_ptr<bz_stream, int (*)(bz_stream*)> guard(&stream, BZ2_bzDecompressEnd);
    int result = BZ_OK;
    while (result == BZ_OK) {
      // bzip2 counts in 32 bits, and promises not to write through next_in.
      const auto piece = static_cast<unsigned>(
          std::min<std::uint64_t>(input.size() - used, std::uint64_t{1} << 30));
      stream.next_in =
          const_cast<char*>(reinterpret_cast<const char*>(input.data()) + used);  // NOLINT
      stream.avail_in = piece;
      const std::span<std::byte> room = output.room();
      stream.next_out = reinterpret_cast<char*>(room.data());
      stream.avail_out = static_cast<unsigned>(room.size());
      result = BZ2_bzDecompress(&stream);
      const std::uint64_t before = used;
      used += piece - stream.avail_in;
      const std::size_t made = room.size() - stream.avail_out;
      STOKER_TRY(output.take(made, used));
      if (result == BZ_OK && used == before && made == 0)
        return corrupt_at(used, "the compressed data ends too early");
    }
    if (result != BZ_STREAM_END) return corrupt_at(used, "bzip2: damaged");
  } while (used < input.size());
  return std::move(output).bytes();
}
#else
Result<Output> decompress_bzip2(std::span<const std::byte> /*input*/,
                                const DecompressLimits& /*limits*/) {
  return lacking("bzip2", "libbz2-dev");
}
#endif

#ifdef STOKER_HAVE_SNAPPY
Result<Output> decompress_snappy(std::span<const std::byte> input, const DecompressLimits& limits) {
  const auto* data = reinterpret_cast<const char*>(input.data());
  std::size_t size = 0;
  if (snappy_uncompressed_length(data, input.size(), &size) != SNAPPY_OK)
    return corrupt_at(0, "snappy: no size");
  // A copy turns 3 bytes into at most 64, so a larger size is false and is not allocated.
  if (size / 32 > input.size()) return corrupt_at(0, "snappy: its size is impossible");
  STOKER_TRY(check_output(limits, input.size(), size));
  Output output(size);
  if (snappy_uncompress(data, input.size(), reinterpret_cast<char*>(output.data()), &size) !=
          SNAPPY_OK ||
      size != output.size())
    return corrupt_at(input.size(), "snappy: damaged");
  return output;
}
#else
Result<Output> decompress_snappy(std::span<const std::byte> /*input*/,
                                 const DecompressLimits& /*limits*/) {
  return lacking("snappy", "libsnappy-dev");
}
#endif

}  // namespace stoker::internal
