#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dataset/input/input.h"
#include "formats/shard_format.h"
#include "stoker/status.h"

namespace stoker {

/// A sample in memory that the caller owns.
struct IngestedSample {
  struct Field {
    std::string name;
    FieldType type = FieldType::bytes;
    std::string dtype;
    std::vector<std::uint64_t> shape;
    std::span<const std::byte> bytes;
  };
  std::string key;
  std::vector<Field> fields;

  /// Sets `out` to views of the sample, valid as long as the sample.
  void view(SampleView& out) const;
  std::uint64_t size_bytes() const;
  /// Returns "sample 17 ('key')".
  std::string describe(std::uint64_t number) const;
};

/// An input of samples in memory. The first sample determines the columns of MDS and the dtype of
/// tokens.
///
/// Thread safety: const methods from any thread.
class MemoryInput final : public PackInput {
 public:
  /// `samples` outlives the input and is not empty; `first` is the number of the first sample, for
  /// messages.
  MemoryInput(std::span<const IngestedSample> samples, std::uint64_t first)
      : samples_(samples), first_(first) {}

  std::uint64_t sample_count() const noexcept override { return samples_.size(); }
  Result<Extent> extent(std::uint64_t sample) const override;
  Status read(std::uint64_t sample, InputSample& out) const override;
  std::string describe(std::uint64_t sample) const override;
  Digest128 fingerprint() const override { return {}; }  // there is no plan to compare it with
  Result<std::vector<std::pair<std::string, std::string>>> mds_columns() const override;
  std::optional<Dtype> token_dtype() const override;

 private:
  const std::span<const IngestedSample> samples_;
  const std::uint64_t first_;
};

}  // namespace stoker
