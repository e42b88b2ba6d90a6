#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "gpu/cuda_device.h"
#include "stoker/status.h"

namespace stoker {

/// Copies many small pieces of a device's memory into one block there, with one call: a copy of its
/// own for each piece would cost more time than its bytes.
///
/// Thread safety: immutable.
class CudaGather {
 public:
  /// As the kernel reads them.
  struct Piece {
    CudaPointer from = 0;
    std::uint32_t to_bytes = 0;  ///< Offset in the block.
    std::uint32_t size_bytes = 0;
  };
  /// All pieces of a call are arguments of the kernel, which may have 4096 bytes.
  static constexpr std::size_t kPiecesMax = 255;

  /// Loads the kernel, which the driver compiles for the device.
  static Result<std::unique_ptr<CudaGather>> make(std::shared_ptr<const CudaDevice> device);
  ~CudaGather();
  CudaGather(const CudaGather&) = delete;
  CudaGather& operator=(const CudaGather&) = delete;

  /// Enqueues the copies of at most kPiecesMax pieces to `block`. Needs a CudaScope of the device.
  Status enqueue(CudaPointer block, std::span<const Piece> pieces, CudaStream stream) const;

 private:
  CudaGather(std::shared_ptr<const CudaDevice> device, CudaModule module, CudaFunction kernel)
      : device_(std::move(device)), module_(module), kernel_(kernel) {}

  const std::shared_ptr<const CudaDevice> device_;
  const CudaModule module_;
  const CudaFunction kernel_;
  const ForkGuard guard_;
};

}  // namespace stoker
