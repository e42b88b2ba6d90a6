/// \file
/// Reads samples outside a run's sequence of batches, to replace others.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "dataset/loader/loader_run.h"
#include "stoker/batch.h"
#include "stoker/order.h"
#include "stoker/status.h"

namespace stoker {

namespace internal {
struct LoaderPlan;
}  // namespace internal

/// Reads samples that the caller names, with the columns of a run. Its batches have their own
/// memory, not the loader's, so the caller may hold them for any time.
///
/// Thread safety: const methods from any thread.
class ExtraSamples {
 public:
  /// `options` are those of the run; `memory_bytes` is not used.
  static Result<std::unique_ptr<ExtraSamples>> make(LoaderRunOptions options);
  ~ExtraSamples();

  /// Returns a batch of `samples`, which replace those at `positions` of the epoch. Fails, or
  /// replaces a sample that cannot be read, as the run would.
  Result<Batch> read(std::uint64_t epoch, std::span<const std::uint64_t> positions,
                     std::span<const SampleRef> samples) const;

 private:
  explicit ExtraSamples(std::unique_ptr<const internal::LoaderPlan> plan);
  std::unique_ptr<const internal::LoaderPlan> plan_;
  std::shared_ptr<internal::BatchShelf> shelf_;
};

}  // namespace stoker
