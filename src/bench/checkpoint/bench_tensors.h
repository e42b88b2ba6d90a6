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

/// The state of a make-believe model: finite 32-bit floats that nobody can compress, in tensors of
/// 64 MiB and a smaller last one.
///
/// Thread safety: none.
class BenchTensors {
 public:
  /// `size_bytes` in all, rounded down to whole floats. `no_space` if the machine has less than
  /// twice as much memory to spare: a save stages a copy of all of it.
  static Result<BenchTensors> make(std::uint64_t size_bytes);

  /// Changes every page of every tensor; `round` makes it differ from all other rounds.
  void change(std::uint64_t round);
  /// Leaves nothing of what was there, so that a restore cannot pass by doing nothing.
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
