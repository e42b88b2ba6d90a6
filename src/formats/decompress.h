/// \file
/// Decompression of bytes from strangers: streaming, with a cap on the output, on its ratio to the
/// input and on the memory for the window, so that a bomb is an error before it is a problem.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "formats/shard_format.h"
#include "stoker/status.h"

namespace stoker {

enum class Codec : std::uint8_t {
  zstd,  ///< Frames one after the other; skippable ones are skipped.
  gzip,  ///< Members one after the other; zero bytes between and after them are skipped.
  // By decompress() alone, and only where the build has found their libraries.
  brotli,
  bzip2,
  snappy,  ///< One block without frames.
};

struct DecompressLimits {
  std::uint64_t output_bytes_max = 0;
  /// Output over input so far. Not looked at below `ratio_free_bytes` of output: a short text of
  /// one letter is no bomb.
  std::uint64_t ratio_max = 1000;
  std::uint64_t ratio_free_bytes = std::uint64_t{1} << 20;
  int window_log_max = 27;  ///< zstd: 128 MiB.
};

/// Decompresses piece by piece. Holds one window and one buffer, whatever the input says.
///
/// Thread safety: none.
class Decompressor {
 public:
  /// For zstd and gzip. `unsupported` if the library refuses to start, as for lack of memory.
  static Result<Decompressor> make(Codec codec, const DecompressLimits& limits);

  Decompressor(Decompressor&&) noexcept;
  Decompressor& operator=(Decompressor&&) noexcept;
  ~Decompressor();

  /// Takes the next bytes and writes what they become. `corrupt` names the offset in the input;
  /// `unsupported`, a window above the limit. What was written before is not to be trusted then.
  Status feed(std::span<const std::byte> input, ByteSink& output);
  /// Must be called after the last byte: `corrupt` if the input ended too early.
  Status finish();
  /// Ready for another input, with its own limit of output; the memory is kept.
  void restart(std::uint64_t output_bytes_max);

 private:
  struct State;
  explicit Decompressor(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

/// The whole of `input` at once. Memory grows with what comes out, not with what a header claims.
/// `unsupported` for a codec whose library this build lacks.
Result<std::vector<std::byte>> decompress(Codec codec, std::span<const std::byte> input,
                                          const DecompressLimits& limits);

}  // namespace stoker
