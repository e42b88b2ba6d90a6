/// \file
/// A token file as a shard: each sequence is a record with one field, "tokens".
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "formats/arrays/tokens.h"
#include "formats/shard_format.h"
#include "stoker/dtype.h"
#include "stoker/status.h"

namespace stoker {

/// Splits the records of token files of one dtype.
///
/// Thread safety: const methods from any thread.
class TokenReader final : public ShardReader {
 public:
  explicit TokenReader(Dtype dtype) : dtype_(dtype) {}

  Dtype dtype() const noexcept { return dtype_; }

  /// Always `unsupported`: make_token_scanner() finds the records, from the layout.
  Result<std::unique_ptr<ShardScanner>> scan(std::uint64_t size_bytes) const override;
  Status split(std::span<const std::byte> record, std::uint64_t record_offset_bytes,
               SampleView& out) const override;

 private:
  Dtype dtype_;
};

/// Returns a scanner that reports the sequences of `layout` without reading them. The scanner owns
/// `idx`, the memory that the layout of a Megatron file refers to.
std::unique_ptr<ShardScanner> make_token_scanner(const TokenLayout& layout, std::string idx = {});

}  // namespace stoker
