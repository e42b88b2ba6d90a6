#include "checkpoint/inspect/verify_digests.h"

#include <algorithm>
#include <utility>

namespace stoker {
namespace {

/// Whether a tensor has bytes in several chunks of its file.
bool spans_chunks(const CheckpointTensor& tensor) {
  return tensor.begin_bytes / kCheckpointChunkBytes !=
         (tensor.end_bytes - 1) / kCheckpointChunkBytes;
}

}  // namespace

DigestCheck::DigestCheck(const CheckpointManifest& manifest, std::size_t copies_max)
    : copies_max_(copies_max), tensors_(manifest.files.size()) {
  for (const auto* const all : {&manifest.tensors, &manifest.duplicates}) {
    for (const CheckpointTensor& tensor : *all) {
      if (!tensor.digest || manifest.files[tensor.file].is_elsewhere) continue;
      if (tensor.begin_bytes == tensor.end_bytes) continue;
      tensors_[tensor.file].push_back(&tensor);
      if (!spans_chunks(tensor)) continue;
      streams_.emplace(&tensor, Stream{.tensor = &tensor, .next = tensor.begin_bytes});
    }
  }
  for (auto& tensors : tensors_)
    std::ranges::sort(tensors, {}, [](const CheckpointTensor* one) { return one->begin_bytes; });
}

void DigestCheck::add(std::uint32_t file, std::uint64_t offset, std::span<const std::byte> bytes) {
  const std::uint64_t end = offset + bytes.size();
  const auto& tensors = tensors_[file];
  auto at = std::ranges::partition_point(
      tensors, [&](const CheckpointTensor* one) { return one->end_bytes <= offset; });
  for (; at != tensors.end() && (*at)->begin_bytes < end; ++at) {
    const CheckpointTensor& tensor = **at;
    const std::uint64_t from = std::max(tensor.begin_bytes, offset);
    const std::uint64_t to = std::min(tensor.end_bytes, end);
    const auto part = bytes.subspan(from - offset, to - from);
    if (const auto found = streams_.find(&tensor); found != streams_.end()) {
      feed(found->second, from, part);
    } else if (!is_again_ && xxh3_128(part) != *tensor.digest) {
      const MutexLock lock(mutex_);
      wrong_.push_back(&tensor);
    }
  }
}

/// Hashes the bytes if they are next, and then what has arrived early; else keeps a copy.
void DigestCheck::feed(Stream& stream, std::uint64_t offset, std::span<const std::byte> bytes) {
  bool is_next = false;
  {
    const MutexLock lock(mutex_);
    is_next = !stream.is_busy && !stream.is_late && offset == stream.next;
    if (is_next) stream.is_busy = true;
  }
  if (!is_next && !keep(stream, offset, bytes)) return;
  std::uint64_t done_bytes = 0;
  if (is_next) {
    stream.digest.update(bytes);
    done_bytes = bytes.size();
  }
  std::vector<std::byte> early;
  while (take_next(stream, done_bytes, early)) {
    stream.digest.update(early);
    done_bytes = early.size();
  }
}

/// Copies bytes that have arrived early. Returns true, having set `is_busy`, if they have become
/// the next ones meanwhile.
bool DigestCheck::keep(Stream& stream, std::uint64_t offset, std::span<const std::byte> bytes) {
  std::map<std::uint64_t, std::vector<std::byte>> dropped;  // freed without the lock
  {
    const MutexLock lock(mutex_);
    if (stream.is_late || stream.is_complete) return false;
    if (copy_count_ >= copies_max_) {
      stream.is_late = true;
      copy_count_ -= stream.early.size();
      dropped.swap(stream.early);
      return false;
    }
    ++copy_count_;
  }
  std::vector<std::byte> copy(bytes.begin(), bytes.end());
  const MutexLock lock(mutex_);
  if (stream.is_late) {
    --copy_count_;
    return false;
  }
  if (!stream.early.emplace(offset, std::move(copy)).second) --copy_count_;
  if (stream.is_busy || stream.early.begin()->first != stream.next) return false;
  stream.is_busy = true;
  return true;
}

/// Notes that `done_bytes` more are hashed, and returns the next ones in `bytes`. Returns false,
/// having reset `is_busy`, if they are not there, or the tensor is complete.
bool DigestCheck::take_next(Stream& stream, std::uint64_t done_bytes,
                            std::vector<std::byte>& bytes) {
  const MutexLock lock(mutex_);
  stream.next += done_bytes;
  const auto found = stream.early.find(stream.next);
  if (!stream.is_late && found != stream.early.end()) {
    bytes = std::move(found->second);
    stream.early.erase(found);
    --copy_count_;
    return true;
  }
  stream.is_busy = false;
  stream.is_complete = !stream.is_late && stream.next == stream.tensor->end_bytes;
  if (stream.is_complete && stream.digest.digest() != stream.tensor->digest)
    wrong_.push_back(stream.tensor);
  return false;
}

std::vector<const CheckpointTensor*> DigestCheck::wrong() const {
  const MutexLock lock(mutex_);
  return wrong_;
}

std::vector<const CheckpointTensor*> DigestCheck::begin_late() {
  is_again_ = true;
  const MutexLock lock(mutex_);
  std::vector<const CheckpointTensor*> late;
  for (auto& [tensor, stream] : streams_) {
    if (!stream.is_late) continue;
    late.push_back(tensor);
    stream = Stream{.tensor = tensor, .next = tensor->begin_bytes};
  }
  return late;
}

}  // namespace stoker
