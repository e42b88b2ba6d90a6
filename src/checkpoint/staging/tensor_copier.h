#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "checkpoint/staging/layout.h"
#include "checkpoint/staging/staging.h"
#include "stoker/status.h"

namespace stoker {

/// Brings the tensors of a save into staging memory. It gets all of them and their places at once,
/// so that one which copies from a device can have many copies under way.
///
/// Thread safety: one save at a time.
class TensorCopier {
 public:
  virtual ~TensorCopier() = default;

  /// `invalid_argument` names a tensor that it cannot copy. Asked before the save takes anything.
  virtual Status check(std::span<const SaveTensor> /*tensors*/) const { return {}; }

  /// Whether SaveTensor::data is memory of this process: others may look at it before it is copied.
  virtual bool is_of_host_memory() const noexcept { return false; }

  /// Takes chunks from `staging`, in their order, and hands each back as soon as it is filled.
  /// Returns when nothing looks at the tensors any more: OK once all of them were copied, else why
  /// not, which `staging` has been told: such a save is never committed. A writer that gives up
  /// ends it early.
  virtual Status copy(const CheckpointLayout& layout, std::span<const SaveTensor> tensors,
                      Staging& staging) = 0;
};

/// From the memory that SaveTensor::data points to, by so many threads, the caller's among them.
std::shared_ptr<TensorCopier> make_host_copier(std::size_t thread_count);

/// Fills `out` with the bytes of a tensor from an offset on. Called by several threads at once.
using TensorRead = std::function<Status(const SaveTensor& tensor, std::uint64_t offset_bytes,
                                        std::span<std::byte> out)>;

/// For tensors that lie in no memory: `read` brings them.
std::shared_ptr<TensorCopier> make_reading_copier(std::size_t thread_count, TensorRead read);

}  // namespace stoker
