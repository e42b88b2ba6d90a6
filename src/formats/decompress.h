/// \file
/// Decompression of untrusted bytes: streaming, with limits on the output, on its ratio to the
/// input and on the memory for the window, so that a decompression bomb is an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "formats/shard_format.h"
#include "stoker/status.h"

namespace stoker {

enum class Codec : std::uint8_t {
  zstd,  ///< A sequence of frames; skippable frames are skipped.
  gzip,  ///< A sequence of members; zero bytes between and after them are skipped.
  // Read by decompress() only, and only if the build has found their libraries.
  brotli,
  bzip2,
  snappy,  ///< One block without frames.
};

/// gzip or zstd, by the first bytes, of which 4 are enough; nothing for others.
std::optional<Codec> recognise_codec(std::span<const std::byte> head) noexcept;

struct DecompressLimits {
  std::uint64_t output_bytes_max = 0;
  /// Limit of output over input. Not applied below `ratio_free_bytes` of output, where a short
  /// repetitive text may exceed it.
  std::uint64_t ratio_max = 1000;
  std::uint64_t ratio_free_bytes = std::uint64_t{1} << 20;
  int window_log_max = 27;  ///< zstd: 128 MiB.
};

/// Decompresses piece by piece. Memory is limited to one window and one buffer.
///
/// Thread safety: none.
class Decompressor {
 public:
  /// For zstd and gzip; `invalid_argument` for other codecs and for a `ratio_max` of 0.
  /// `unsupported` if the library fails to start, for example for lack of memory.
  static Result<Decompressor> make(Codec codec, const DecompressLimits& limits);

  Decompressor(Decompressor&&) noexcept;
  Decompressor& operator=(Decompressor&&) noexcept;
  ~Decompressor();

  /// Decompresses the next bytes into `output`. `corrupt` names the offset in the input;
  /// `unsupported` for a window above the limit. After an error, discard what was written.
  Status feed(std::span<const std::byte> input, ByteSink& output);
  /// Must be called after the last byte: `corrupt` if the input is incomplete.
  Status finish();
  /// Prepares for another input, with a new output limit; keeps the memory.
  void restart(std::uint64_t output_bytes_max);

 private:
  struct State;
  explicit Decompressor(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

/// Decompresses the whole of `input`. Memory grows with the actual output, not with the size that a
/// header claims. `unsupported` for a codec whose library this build lacks.
Result<std::vector<std::byte>> decompress(Codec codec, std::span<const std::byte> input,
                                          const DecompressLimits& limits);

}  // namespace stoker
