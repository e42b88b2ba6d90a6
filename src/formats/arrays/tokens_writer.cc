#include <array>
#include <string>
#include <utility>

#include "formats/arrays/npy.h"
#include "formats/arrays/raw_array.h"
#include "formats/arrays/tokens.h"

namespace stoker {
namespace {

Result<std::vector<std::byte>> make_head(TokenFormat format, Dtype dtype,
                                         TokenWriter::Shape shape) {
  switch (format) {
    case TokenFormat::raw: {  // no header, but the same limits
      const auto limits = make_counted_head(shape.samples, shape.length, dtype);
      if (!limits.ok()) return limits.status();
      return std::vector<std::byte>{};
    }
    case TokenFormat::npy: return make_npy_head(dtype, std::array{shape.samples, shape.length});
    case TokenFormat::counted: return make_counted_head(shape.samples, shape.length, dtype);
    case TokenFormat::shard001: return make_shard001_head(shape.samples, shape.length, dtype);
  }
  return Status(Code::invalid_argument, "no such token format");
}

}  // namespace

Result<TokenWriter> TokenWriter::make(ByteSink& sink, TokenFormat format, Dtype dtype,
                                      Shape shape) {
  STOKER_ASSIGN(const std::vector<std::byte> head, make_head(format, dtype, shape));
  if (!head.empty()) STOKER_TRY(sink.write(head));
  // make_head() has checked that the product fits.
  return TokenWriter(sink, dtype, shape.samples * shape.length * dtype_size_bytes(dtype));
}

Status TokenWriter::append(std::span<const std::byte> tokens) {
  STOKER_TRY(failure_);
  if (tokens.size() % dtype_size_bytes(dtype_) != 0)
    return Status(Code::invalid_argument, std::to_string(tokens.size()) +
                                              " bytes are not a whole number of " +
                                              std::string(dtype_name(dtype_)) + " tokens");
  if (tokens.size() > rest_bytes_)
    return Status(Code::invalid_argument, std::to_string(tokens.size()) +
                                              " bytes of tokens where the shape has room for " +
                                              std::to_string(rest_bytes_));
  failure_ = sink_->write(tokens);
  if (failure_.ok()) rest_bytes_ -= tokens.size();
  return failure_;
}

Status TokenWriter::finish() {
  STOKER_TRY(failure_);
  if (rest_bytes_ != 0)
    return Status(Code::invalid_argument,
                  std::to_string(rest_bytes_) + " bytes of tokens are missing for the shape");
  failure_ = Status(Code::invalid_argument, "the file is finished");
  return {};
}

}  // namespace stoker
