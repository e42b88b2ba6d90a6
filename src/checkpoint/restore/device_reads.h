#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "checkpoint/restore/device_read_memory.h"
#include "gpu/uploader.h"
#include "io/engine/arena.h"
#include "stoker/status.h"

namespace stoker {

/// What the caller of a read has on CUDA devices.
struct DeviceReadUse {
  /// Called if a target is on a device. The driver must outlive the read.
  std::function<Result<const CudaDriver*>()> find_driver = CudaDriver::find;
  /// The caller's streams: number of the device, and CUstream, null for the default stream. What a
  /// device's targets get is written after the work that these have at the time of the call.
  std::vector<std::pair<std::int32_t, void*>> streams = {};
  /// Keeps pinned memory for the next read. Null: it is of this read alone.
  std::shared_ptr<DeviceReadMemory> memory = {};
};

/// The copies of one read to devices. Chunks are read into memory that is pinned, so that the copy
/// of one runs while the next ones are read. The memory is given back, and finish() returns, when
/// no copy is in progress any more.
///
/// Thread safety: arena(), enqueue() and may_reuse() may be called from several threads at once.
class DeviceReads {
 public:
  using Uploads = std::map<std::int32_t, std::vector<CudaUpload>>;  ///< By device.

  /// `name_of` names the tensors of a chunk, for messages.
  static Result<std::unique_ptr<DeviceReads>> begin(
      const std::set<std::int32_t>& devices, const DeviceReadUse& use,
      std::function<std::string(std::size_t chunk)> name_of);
  DeviceReads(const DeviceReads&) = delete;
  DeviceReads& operator=(const DeviceReads&) = delete;
  ~DeviceReads();

  /// Makes memory for chunks: a view of memory that lives as long as this object.
  Result<std::unique_ptr<Arena>> arena(std::size_t size_bytes);

  /// Enqueues the copies of one chunk, whose verified bytes are `bytes`. They must not change until
  /// may_reuse() says so. If they are in other memory than that of arena(), waits for the copies.
  Status enqueue(std::size_t chunk, std::span<const std::byte> bytes, const Uploads& uploads);

  /// ChunkHandler::may_reuse().
  Result<bool> may_reuse(std::span<const std::byte> memory, bool wait);

  /// Waits for all copies. Everything was written if it returns OK.
  Status finish();

 private:
  using Events = std::vector<std::pair<CudaUploader*, std::unique_ptr<OwnedCudaEvent>>>;
  struct Lent {
    std::size_t chunk = 0;
    Events events;
  };

  DeviceReads(std::function<std::string(std::size_t)> name_of,
              std::shared_ptr<DeviceReadMemory> memory)
      : name_of_(std::move(name_of)), memory_(std::move(memory)) {}
  bool is_ours(const std::byte* at);
  Result<bool> is_done(const Lent& lent, bool wait) const;
  void give_back(Lent& lent);

  const std::function<std::string(std::size_t)> name_of_;
  const std::shared_ptr<DeviceReadMemory> memory_;
  std::map<std::int32_t, std::unique_ptr<CudaUploader>> uploaders_;  // constant after begin()
  Mutex mutex_;
  std::vector<std::unique_ptr<Arena>> arenas_ STOKER_GUARDED_BY(mutex_);
  std::map<const std::byte*, Lent> lent_ STOKER_GUARDED_BY(mutex_);  // by the first byte
};

}  // namespace stoker
