#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/checksum.h"
#include "base/clock.h"
#include "checkpoint/staging/layout.h"
#include "checkpoint/staging/staging.h"
#include "stoker/device.h"
#include "stoker/status.h"

namespace stoker {

/// The rest of a copy; empty if there is none.
using CopyRest = std::function<Status()>;

/// Copies the tensors of a save into staging memory. It gets all tensors and their places at once,
/// so that a copier for a device can have many copies in flight.
///
/// Thread safety: the checkpointer makes one call at a time, from the thread that calls save(). The
/// rest of a copy runs meanwhile, on a thread of its own.
class TensorCopier {
 public:
  virtual ~TensorCopier() = default;

  /// Returns `invalid_argument`, with the name, for a tensor that it cannot copy: of another
  /// device, or with SaveTensor::strides_bytes that it does not support. Called before the save
  /// changes anything.
  virtual Status check(std::span<const SaveTensor> /*tensors*/) const { return {}; }

  /// Called first in every save: afterwards the caller gives its streams no work until save()
  /// returns. An error fails the save. This, digests() and begin_copy() wait for devices until
  /// `deadline`, and not longer.
  virtual Status begin(std::span<const SaveTensor> /*tensors*/, const DeviceUse& /*use*/,
                       Deadline /*deadline*/) {
    return {};
  }

  /// Whether SaveTensor::data points to memory of this process, unless SaveTensor::device is set.
  /// If so, others may read it before copy().
  virtual bool is_of_host_memory() const noexcept { return false; }

  /// Fills every chunk of `layout`: takes chunks with Staging::next_to_fill(), which come in file
  /// order, writes to each the bytes of the file at its offset (LayoutFile::header first, then the
  /// tensors), and calls Staging::filled() for it, in any order. next_to_fill() waits for free
  /// memory when `staging` is a ring, so a chunk that is complete must be handed over before the
  /// next one is taken if no others are in flight. It returns nothing once all chunks were given
  /// out or the save has failed.
  ///
  /// Returns when nothing reads the tensors or writes to the chunks any more: OK, or an error,
  /// which fails the save. An exception fails the save as well.
  virtual Status copy(const CheckpointLayout& layout, std::span<const SaveTensor> tensors,
                      Staging& staging) = 0;

  /// Like copy(), but may return while chunks are still to be filled, from a snapshot: the tensors
  /// may change then. The result does the rest, and is called once, by any thread. It returns when
  /// nothing writes to the chunks any more; an error or an exception fails the save. The arguments
  /// and the copier live until then. If a device has not answered by the deadline of begin(), the
  /// save has failed, and the rest is to wait for the device, which may still read the tensors.
  virtual Result<CopyRest> begin_copy(const CheckpointLayout& layout,
                                      std::span<const SaveTensor> tensors, Staging& staging) {
    STOKER_TRY(copy(layout, tensors, staging));
    return CopyRest();
  }

  /// Returns the XXH3-128 of each tensor's bytes, as copy() would write them. Nothing reads the
  /// tensors after the return, with one exception: if a device has not answered by
  /// the deadline of begin(), the call fails with `unavailable` and sets `late`, which waits until
  /// the device does nothing for the call any more. `late` is called once, by any thread, while the
  /// copier lives.
  virtual Result<std::vector<Digest128>> digests(std::span<const SaveTensor> tensors,
                                                 CopyRest& late) = 0;
};

/// Returns `invalid_argument`, with the name, if a tensor has elements and no data.
Status check_has_data(const SaveTensor& tensor);

/// Fills `out` with the part of the file's header that is in [begin, begin + out.size()) of the
/// file.
void copy_header(const LayoutFile& file, std::uint64_t begin_bytes, std::span<std::byte> out);

/// Returns a copier from the memory at SaveTensor::data, with `thread_count` threads including the
/// caller's.
std::shared_ptr<TensorCopier> make_host_copier(std::size_t thread_count);

/// Fills `out` with the bytes of a tensor from an offset on. Called from several threads at once.
using TensorRead = std::function<Status(const SaveTensor& tensor, std::uint64_t offset_bytes,
                                        std::span<std::byte> out)>;

/// Returns a copier for tensors that are not in memory: `read` reads them.
std::shared_ptr<TensorCopier> make_reading_copier(std::size_t thread_count, TensorRead read);

}  // namespace stoker
