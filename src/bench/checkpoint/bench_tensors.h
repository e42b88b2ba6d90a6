#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "checkpoint/restore/box_copy.h"
#include "checkpoint/staging/layout.h"
#include "stoker/status.h"

namespace stoker {

/// The state of an artificial model: finite, incompressible 32-bit floats in tensors of 64 MiB; the
/// last one may be smaller.
///
/// Thread safety: none.
class BenchTensors {
 public:
  /// Makes tensors of `size_bytes` in total, rounded down to a multiple of 8. `no_space` if less
  /// than twice as much memory is available: a save stages a copy of all tensors.
  static Result<BenchTensors> make(std::uint64_t size_bytes);

  /// Changes every page of every tensor; each `round` gives other bytes.
  void change(std::uint64_t round);
  /// Sets all bytes to zero, so that a restore that does nothing is detected.
  void clear();
  Digest128 digest() const { return xxh3_128(bytes()); }

  std::vector<SaveTensor> to_save() const;
  std::vector<ReadTarget> to_fill();
  std::uint64_t size_bytes() const noexcept { return size_bytes_; }
  std::size_t count() const noexcept;

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept;
  };

  BenchTensors(std::byte* memory, std::uint64_t size_bytes)
      : memory_(memory), size_bytes_(size_bytes) {}
  std::span<std::byte> bytes() const noexcept { return {memory_.get(), size_bytes_}; }
  std::span<std::byte> tensor(std::size_t index) const noexcept;
  static std::string name_of(std::size_t index);

  std::unique_ptr<std::byte, Free> memory_;
  std::uint64_t size_bytes_ = 0;
};

}  // namespace stoker
