#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/checksum.h"
#include "base/mutex.h"
#include "checkpoint/manifest/manifest.h"

namespace stoker {

/// Compares the digests of tensors with their bytes, which arrive chunk by chunk, in any order. A
/// tensor inside one chunk is compared at once. Of one that spans several, chunks that arrive too
/// early are copied; if there are too many of these, the tensor is left for later.
///
/// Thread safety: every method may be called from any thread.
class DigestCheck {
 public:
  /// `copies_max`: how many chunks may be copied at once. The manifest outlives this object.
  DigestCheck(const CheckpointManifest& manifest, std::size_t copies_max);

  /// `bytes`, at `offset` of a file, are as they were written.
  void add(std::uint32_t file, std::uint64_t offset, std::span<const std::byte> bytes);

  /// Tensors whose bytes have another digest.
  std::vector<const CheckpointTensor*> wrong() const;
  /// Begins again with the tensors that were left for later, of which add() has to get all bytes,
  /// in about their order. Returns them. Not during a call of add().
  std::vector<const CheckpointTensor*> begin_late();

 private:
  /// A tensor that spans chunks.
  struct Stream {
    const CheckpointTensor* tensor = nullptr;
    Xxh3Stream digest = {};  ///< Of the bytes before `next`; used by the thread that set `is_busy`.
    // Guarded by mutex_:
    std::uint64_t next = 0;  ///< Offset in the file.
    bool is_busy = false;
    bool is_late = false;
    bool is_complete = false;
    std::map<std::uint64_t, std::vector<std::byte>> early = {};  ///< By offset.
  };

  void feed(Stream& stream, std::uint64_t offset, std::span<const std::byte> bytes);
  bool keep(Stream& stream, std::uint64_t offset, std::span<const std::byte> bytes);
  bool take_next(Stream& stream, std::uint64_t done_bytes, std::vector<std::byte>& bytes);

  const std::size_t copies_max_;
  // By file, sorted by their offset in it.
  std::vector<std::vector<const CheckpointTensor*>> tensors_;
  std::map<const CheckpointTensor*, Stream> streams_;  // all made by the constructor

  mutable Mutex mutex_;
  bool is_again_ = false;  // set between the calls of add()
  std::size_t copy_count_ STOKER_GUARDED_BY(mutex_) = 0;
  std::vector<const CheckpointTensor*> wrong_ STOKER_GUARDED_BY(mutex_);
};

}  // namespace stoker
