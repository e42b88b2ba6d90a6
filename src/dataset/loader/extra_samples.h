/// \file
/// Samples beside a run's line of batches: those that stand in for others.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "dataset/batch/batch.h"
#include "dataset/loader/loader.h"
#include "dataset/order/sample_ref.h"
#include "stoker/status.h"

namespace stoker {

namespace internal {
struct LoaderPlan;
}  // namespace internal

/// Reads samples that the caller names, with the columns of a run. Its batches have memory of their
/// own, not the loader's: they may be held as long as others are.
///
/// Thread safety: const methods from any thread.
class ExtraSamples {
 public:
  /// With the options of the run; their cursor and memory have no part in it.
  static Result<std::unique_ptr<ExtraSamples>> make(LoaderOptions options);
  ~ExtraSamples();

  /// A batch of `samples`, which stand for those at `positions` of the epoch. Fails, or replaces a
  /// sample that cannot be read, as the run would.
  Result<Batch> read(std::uint64_t epoch, std::span<const std::uint64_t> positions,
                     std::span<const SampleRef> samples) const;

 private:
  explicit ExtraSamples(std::unique_ptr<const internal::LoaderPlan> plan);
  std::unique_ptr<const internal::LoaderPlan> plan_;
  std::shared_ptr<internal::BatchShelf> shelf_;
};

}  // namespace stoker
