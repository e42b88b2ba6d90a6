#include "checkpoint/restore/checkpoint_read.h"

#include <fmt/format.h>

#include <algorithm>
#include <compare>
#include <cstring>

#include "checkpoint/manifest/places.h"
#include "formats/json/strict_json.h"

namespace stoker {
namespace {

/// While one chunk of a thread is copied to a device, it reads the next ones.
constexpr std::uint32_t kSpare = 1;
/// Pinning memory takes about as long as reading that much: half of what other reads use.
constexpr std::uint32_t kPinnedInFlightMax = 16;

}  // namespace

void CheckpointRead::add_jobs() {
  struct Touch {
    std::uint32_t file;
    std::uint32_t chunk;
    std::uint32_t copy;
    auto operator<=>(const Touch&) const = default;
  };
  std::vector<Touch> touches;
  for (std::uint32_t i = 0; i < copies_.size(); ++i) {
    const BoxCopy& copy = copies_[i];
    const std::uint64_t last = (copy.end_bytes() - 1) / kCheckpointChunkBytes;
    for (std::uint64_t chunk = copy.begin_bytes / kCheckpointChunkBytes; chunk <= last; ++chunk) {
      const std::uint64_t begin = chunk * kCheckpointChunkBytes;
      const auto [first, end] = hull_of(copy, begin, begin + kCheckpointChunkBytes);
      if (first < end) touches.push_back({file_of(copy), static_cast<std::uint32_t>(chunk), i});
    }
  }
  std::ranges::sort(touches);
  for (const Touch& touch : touches) {
    const auto at = static_cast<std::uint32_t>(order_.size());
    if (jobs_.empty() || jobs_.back().file != touch.file || jobs_.back().chunk != touch.chunk)
      jobs_.push_back({.file = touch.file, .chunk = touch.chunk, .copies_begin = at});
    order_.push_back(touch.copy);
    jobs_.back().copies_end = at + 1;
  }
  std::erase_if(jobs_, [&](const Job& job) {
    if (is_for_devices(job)) return false;
    const VerifiedChunks::Bytes bytes = verified_.find(job.file, job.chunk);
    if (bytes == nullptr) return false;
    copy_from(job, job.chunk * kCheckpointChunkBytes, *bytes);
    return true;
  });
  for (const Job& job : jobs_) add_read(job);
}

void CheckpointRead::add_read(const Job& job) {
  const std::uint64_t begin = job.chunk * kCheckpointChunkBytes;
  const std::uint64_t end =
      std::min(begin + kCheckpointChunkBytes, manifest_.files[job.file].size_bytes);
  reads_.push_back({.file = job.file,
                    .offset_bytes = begin,
                    .size_bytes = static_cast<std::size_t>(end - begin),
                    .into = place_of(job, begin, end)});
}

/// Returns the destination if a single run of a single copy takes all of [begin, end) to host
/// memory; otherwise nothing.
std::span<std::byte> CheckpointRead::place_of(const Job& job, std::uint64_t begin,
                                              std::uint64_t end) const {
  if (job.copies_end - job.copies_begin != 1 || is_for_devices(job)) return {};
  std::span<std::byte> place;
  const BoxCopy& copy = copies_[order_[job.copies_begin]];
  if (copy.run_bytes < end - begin) return {};
  for_each_run(copy, begin, end, [&](const RunPiece& piece) {
    if (piece.size_bytes == end - begin) place = {piece.into, piece.size_bytes};
  });
  return place;
}

bool CheckpointRead::is_for_devices(const Job& job) const {
  for (std::uint32_t i = job.copies_begin; i < job.copies_end; ++i)
    if (copies_[order_[i]].device != kHostMemory) return true;
  return false;
}

Status CheckpointRead::begin_devices(const DeviceReadUse& use, ChunkReadOptions& options) {
  std::set<std::int32_t> devices;
  for (const BoxCopy& copy : copies_)
    if (copy.device != kHostMemory) devices.insert(copy.device);
  if (devices.empty()) return {};
  STOKER_ASSIGN(devices_, DeviceReads::begin(devices, use, [this](std::size_t index) {
                  return tensors_of(index);
                }));
  options.arena = [this](std::size_t size_bytes) { return devices_->arena(size_bytes); };
  options.spare = kSpare;
  options.in_flight_max = kPinnedInFlightMax;
  return {};
}

Status CheckpointRead::check_here() const {
  for (const BoxCopy& copy : copies_) {
    const CheckpointFile& file = manifest_.files[file_of(copy)];
    if (!file.is_elsewhere) continue;
    return {Code::unsupported,
            fmt::format("tensor {} is in {}, {}, and not on the disk of this node. Restore with as "
                        "many ranks on the same nodes as saved it; for any other layout, copy the "
                        "directories of this step from all nodes into one",
                        quote_for_message(manifest_.tensors[copy.tensor].name), file.name,
                        place_text(manifest_, file))};
  }
  return {};
}

Status CheckpointRead::run(ChunkReadOptions options, const DeviceReadUse& devices,
                           std::atomic<std::uint64_t>* read_bytes) {
  STOKER_TRY(check_here());
  read_bytes_ = read_bytes;
  add_jobs();
  STOKER_TRY(begin_devices(devices, options));
  Status status = files_.read(reads_, *this, options);
  if (devices_ == nullptr) return status;
  if (status.ok()) status = devices_->finish();
  devices_ = nullptr;  // waits, if that was not done
  return status;
}

std::string CheckpointRead::tensors_of(std::size_t index) const {
  const ChunkRead& read = reads_[index];
  return name_tensors(
      tensors_in(manifest_, read.file, read.offset_bytes, read.offset_bytes + read.size_bytes));
}

Status CheckpointRead::chunk_failed(std::size_t index, const Status& status) {
  return status.with_context(tensors_of(index));
}

Result<bool> CheckpointRead::may_reuse(std::span<const std::byte> memory, bool wait) {
  return devices_ == nullptr ? Result<bool>(true) : devices_->may_reuse(memory, wait);
}

/// For a chunk that was verified.
Status CheckpointRead::copy_to_devices(std::size_t index, std::span<const std::byte> bytes) {
  const Job& job = jobs_[index];
  const std::uint64_t begin = reads_[index].offset_bytes;
  DeviceReads::Uploads uploads;
  for (std::uint32_t i = job.copies_begin; i < job.copies_end; ++i) {
    const BoxCopy& copy = copies_[order_[i]];
    if (copy.device == kHostMemory) continue;
    std::vector<CudaUpload> of_tensor;  // copies of two tensors are never joined
    for_each_run(copy, begin, begin + bytes.size(), [&](const RunPiece& piece) {
      add_upload(of_tensor, {.to = reinterpret_cast<CudaPointer>(piece.into),
                             .from = bytes.data() + (piece.offset_bytes - begin),
                             .size_bytes = piece.size_bytes});
    });
    std::vector<CudaUpload>& to_device = uploads[copy.device];
    to_device.insert(to_device.end(), of_tensor.begin(), of_tensor.end());
  }
  for (auto& [device, copies] : uploads) std::ranges::sort(copies, {}, &CudaUpload::from);
  return devices_->enqueue(index, bytes, uploads);
}

bool CheckpointRead::is_expected(const Job& job, const Digest128& digest) const {
  return digest == manifest_.files[job.file].chunks[job.chunk];
}

Status CheckpointRead::chunk_read(std::size_t index, std::span<const std::byte> bytes) {
  const Job& job = jobs_[index];
  const bool is_in_place = !reads_[index].into.empty() && bytes.data() == reads_[index].into.data();
  const std::uint64_t begin = reads_[index].offset_bytes;
  if (!has_checksums_) {
    if (!is_in_place) copy_from(job, begin, bytes);
  } else if (is_in_place || is_for_devices(job)) {
    if (!is_expected(job, xxh3_128(bytes))) return mismatch(index, bytes);
    if (!is_in_place) copy_from(job, begin, bytes);
  } else if (!is_expected(job, hash_and_copy(index, bytes))) {
    return mismatch(index, bytes);
  }
  // Behind the whole checksum: what is wrong never gets to a device.
  if (is_for_devices(job)) STOKER_TRY(copy_to_devices(index, bytes));
  if (is_small_part(job, begin, begin + bytes.size())) verified_.keep(job.file, job.chunk, bytes);
  // relaxed: for progress reports
  if (read_bytes_ != nullptr) read_bytes_->fetch_add(bytes.size(), std::memory_order_relaxed);
  return {};
}

/// Whether only a small part of the chunk is read now, so that the next part may follow soon.
bool CheckpointRead::is_small_part(const Job& job, std::uint64_t begin, std::uint64_t end) const {
  std::uint64_t wanted = 0;
  for (std::uint32_t i = job.copies_begin; i < job.copies_end; ++i) {
    const auto [first, last] = hull_of(copies_[order_[i]], begin, end);
    wanted += last - first;
  }
  return jobs_.size() == 1 && wanted < (end - begin) / 2;
}

void CheckpointRead::copy_from(const Job& job, std::uint64_t offset_bytes,
                               std::span<const std::byte> bytes) const {
  const auto copy = [&](const RunPiece& piece) {
    std::memcpy(piece.into, bytes.data() + (piece.offset_bytes - offset_bytes), piece.size_bytes);
  };
  for (std::uint32_t i = job.copies_begin; i < job.copies_end; ++i)
    if (copies_[order_[i]].device == kHostMemory)
      for_each_run(copies_[order_[i]], offset_bytes, offset_bytes + bytes.size(), copy);
}

/// Works in blocks, so that the bytes are still in the CPU cache when they are copied.
Digest128 CheckpointRead::hash_and_copy(std::size_t index, std::span<const std::byte> bytes) const {
  constexpr std::size_t kBlockBytes = std::size_t{256} << 10;
  Xxh3Stream hash;
  for (std::size_t at = 0; at < bytes.size(); at += kBlockBytes) {
    const std::span<const std::byte> block =
        bytes.subspan(at, std::min(kBlockBytes, bytes.size() - at));
    hash.update(block);
    copy_from(jobs_[index], reads_[index].offset_bytes + at, block);
  }
  return hash.digest();
}

Status CheckpointRead::mismatch(std::size_t index, std::span<const std::byte> bytes) const {
  const ChunkRead& read = reads_[index];
  return {Code::corrupt, fmt::format("{}, offset {}, length {}: {} ({})", files_.path_of(read.file),
                                     read.offset_bytes, read.size_bytes, describe_mismatch(bytes),
                                     tensors_of(index))};
}

std::vector<std::string> tensors_in(const CheckpointManifest& manifest, std::uint32_t file,
                                    std::uint64_t begin_bytes, std::uint64_t end_bytes) {
  std::vector<std::string> names;
  for (const CheckpointTensor& tensor : manifest.tensors) {
    if (tensor.file == file && tensor.begin_bytes < end_bytes && tensor.end_bytes > begin_bytes)
      names.push_back(tensor.name);
  }
  return names;
}

std::string name_tensors(std::span<const std::string> names) {
  constexpr std::size_t kShownMax = 3;
  if (names.empty()) return "no tensor";
  const std::size_t shown = std::min(names.size(), kShownMax);
  const auto is_plain = [](char c) { return static_cast<unsigned char>(c) >= ' ' && c != 0x7f; };
  std::string text = names.size() > 1 ? "tensors" : "tensor";
  std::string_view separator = " ";
  for (const std::string& name : names.first(shown)) {  // quoted only if not printable on one line
    text += separator;
    text += std::ranges::all_of(name, is_plain) ? name : quote_for_message(name);
    separator = ", ";
  }
  if (names.size() > shown) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

std::string_view describe_mismatch(std::span<const std::byte> bytes) noexcept {
  const bool is_hole = std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
  return is_hole ? "checksum mismatch: it contains only zeros" : "checksum mismatch";
}

}  // namespace stoker
