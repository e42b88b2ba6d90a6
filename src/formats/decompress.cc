#include "formats/decompress.h"

#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <utility>

#include "formats/decompress_whole.h"

namespace stoker {
namespace {

constexpr std::size_t kOutputBytes = std::size_t{128} << 10;
/// zlib counts input in 32 bits.
constexpr std::size_t kInputPieceBytes = std::size_t{1} << 30;

struct FreeZstd {
  void operator()(ZSTD_DCtx* context) const noexcept { ZSTD_freeDCtx(context); }
};

struct FreeZlib {
  void operator()(z_stream* stream) const noexcept {
    inflateEnd(stream);
    delete stream;
  }
};

class VectorSink final : public ByteSink {
 public:
  Status write(std::span<const std::byte> piece) override {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
    return {};
  }
  std::vector<std::byte> bytes;
};

}  // namespace

struct Decompressor::State {
  Codec codec = Codec::zstd;
  DecompressLimits limits;
  std::unique_ptr<ZSTD_DCtx, FreeZstd> zstd;
  std::unique_ptr<z_stream, FreeZlib> zlib;
  /// Not initialized: only what the libraries have written is passed on.
  std::unique_ptr<std::byte[]> memory = std::make_unique_for_overwrite<std::byte[]>(kOutputBytes);
  std::span<std::byte> buffer = {memory.get(), kOutputBytes};
  std::uint64_t input_bytes = 0;
  std::uint64_t output_bytes = 0;
  bool started = false;  ///< At least one frame has begun.
  bool inside = false;   ///< The current frame is incomplete.
  Status failure;

  Status corrupt(std::string_view reason) const {
    return {Code::corrupt, fmt::format("compressed byte {}: {}", input_bytes, reason)};
  }

  /// Writes the first `size` bytes of the buffer to `output`, if the limits allow them.
  Status emit(std::size_t size, ByteSink& output) {
    if (size == 0) return {};
    output_bytes += size;
    STOKER_TRY(internal::check_output(limits, input_bytes, output_bytes));
    return output.write(buffer.first(size));
  }

  Status feed_zstd(std::span<const std::byte> input, ByteSink& output);
  Status feed_gzip(std::span<const std::byte> input, ByteSink& output);
};

Status Decompressor::State::feed_zstd(std::span<const std::byte> input, ByteSink& output) {
  ZSTD_inBuffer in = {input.data(), input.size(), 0};
  bool more = false;  // the buffer was filled, so the library may hold back output
  while (in.pos < in.size || (more && inside)) {
    ZSTD_outBuffer out = {buffer.data(), buffer.size(), 0};
    const std::size_t before = in.pos;
    const std::size_t hint = ZSTD_decompressStream(zstd.get(), &out, &in);
    if (ZSTD_isError(hint) != 0) {
      if (ZSTD_getErrorCode(hint) == ZSTD_error_frameParameter_windowTooLarge) {
        return {Code::unsupported,
                fmt::format("compressed byte {}: the zstd window is larger than 2^{} bytes; "
                            "compress without --long",
                            input_bytes, limits.window_log_max)};
      }
      return corrupt(fmt::format("zstd: {}", ZSTD_getErrorName(hint)));
    }
    started = true;
    input_bytes += in.pos - before;
    inside = hint != 0;
    more = out.pos == out.size;
    STOKER_TRY(emit(out.pos, output));
  }
  return {};
}

Status Decompressor::State::feed_gzip(std::span<const std::byte> input, ByteSink& output) {
  while (!input.empty()) {
    if (!inside) {
      if (started && input.front() == std::byte{0}) {
        input = input.subspan(1);
        ++input_bytes;
        continue;
      }
      if (inflateReset(zlib.get()) != Z_OK) return corrupt("gzip: cannot be started again");
      started = true;
      inside = true;
    }
    const std::size_t piece = std::min(input.size(), kInputPieceBytes);
    // zlib promises not to write through next_in.
    zlib->next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(input.data()));
    zlib->avail_in = static_cast<uInt>(piece);
    int result = Z_OK;
    do {
      zlib->next_out = reinterpret_cast<Bytef*>(buffer.data());
      zlib->avail_out = static_cast<uInt>(buffer.size());
      const uInt before = zlib->avail_in;
      result = inflate(zlib.get(), Z_NO_FLUSH);
      input_bytes += before - zlib->avail_in;
      if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
        return corrupt(fmt::format("gzip: {}", zlib->msg == nullptr ? "damaged" : zlib->msg));
      }
      STOKER_TRY(emit(buffer.size() - zlib->avail_out, output));
    } while (result == Z_OK && (zlib->avail_in > 0 || zlib->avail_out == 0));
    inside = result != Z_STREAM_END;
    input = input.subspan(piece - zlib->avail_in);
  }
  return {};
}

Decompressor::Decompressor(std::unique_ptr<State> state) : state_(std::move(state)) {}
Decompressor::Decompressor(Decompressor&&) noexcept = default;
Decompressor& Decompressor::operator=(Decompressor&&) noexcept = default;
Decompressor::~Decompressor() = default;

Result<Decompressor> Decompressor::make(Codec codec, const DecompressLimits& limits) {
  if (limits.ratio_max == 0) {
    return Status(Code::invalid_argument, "decompress: ratio_max must be at least 1");
  }
  if (codec != Codec::zstd && codec != Codec::gzip) {
    return Status(Code::invalid_argument, "decompress: this codec is not read in pieces");
  }
  auto state = std::make_unique<State>();
  state->codec = codec;
  state->limits = limits;
  if (codec == Codec::zstd) {
    state->zstd.reset(ZSTD_createDCtx());
    if (state->zstd == nullptr ||
        ZSTD_isError(ZSTD_DCtx_setParameter(state->zstd.get(), ZSTD_d_windowLogMax,
                                            limits.window_log_max)) != 0) {
      return Status(Code::unsupported, fmt::format("zstd: cannot start with a window of 2^{} bytes",
                                                   limits.window_log_max));
    }
  } else {
    auto stream = std::make_unique<z_stream>();
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    if (inflateInit2(stream.get(), kGzipOnly) != Z_OK) {
      return Status(Code::unsupported, "gzip: zlib cannot start");
    }
    state->zlib.reset(stream.release());
  }
  return Decompressor(std::move(state));
}

std::optional<Codec> recognise_codec(std::span<const std::byte> head) noexcept {
  const auto is_at = [head](std::size_t i, unsigned value) {
    return i < head.size() && head[i] == std::byte(value);
  };
  if (is_at(0, 0x1f) && is_at(1, 0x8b)) return Codec::gzip;
  if (is_at(0, 0x28) && is_at(1, 0xb5) && is_at(2, 0x2f) && is_at(3, 0xfd)) return Codec::zstd;
  // A skippable frame, with which pzstd begins.
  const bool is_skippable = !head.empty() && (head[0] & std::byte{0xf0}) == std::byte{0x50} &&
                            is_at(1, 0x2a) && is_at(2, 0x4d) && is_at(3, 0x18);
  return is_skippable ? std::optional(Codec::zstd) : std::nullopt;
}

Status Decompressor::feed(std::span<const std::byte> input, ByteSink& output) {
  STOKER_TRY(state_->failure);
  state_->failure = state_->codec == Codec::zstd ? state_->feed_zstd(input, output)
                                                 : state_->feed_gzip(input, output);
  return state_->failure;
}

Status Decompressor::finish() {
  STOKER_TRY(state_->failure);
  if (!state_->started) return state_->corrupt("empty, not a compressed file");
  if (state_->inside) return state_->corrupt("the compressed data ends too early");
  return {};
}

void Decompressor::restart(std::uint64_t output_bytes_max) {
  // gzip is reset at the beginning of each member.
  if (state_->zstd != nullptr) ZSTD_DCtx_reset(state_->zstd.get(), ZSTD_reset_session_only);
  state_->limits.output_bytes_max = output_bytes_max;
  state_->input_bytes = 0;
  state_->output_bytes = 0;
  state_->started = false;
  state_->inside = false;
  state_->failure = Status();
}

Result<std::vector<std::byte>> decompress(Codec codec, std::span<const std::byte> input,
                                          const DecompressLimits& limits) {
  switch (codec) {
    case Codec::brotli: return internal::decompress_brotli(input, limits);
    case Codec::bzip2: return internal::decompress_bzip2(input, limits);
    case Codec::snappy: return internal::decompress_snappy(input, limits);
    case Codec::zstd:
    case Codec::gzip: break;
  }
  STOKER_ASSIGN(Decompressor decompressor, Decompressor::make(codec, limits));
  VectorSink sink;
  STOKER_TRY(decompressor.feed(input, sink));
  STOKER_TRY(decompressor.finish());
  return std::move(sink.bytes);
}

}  // namespace stoker
