#include "checkpoint/inspect/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/mutex.h"
#include "checkpoint/catalog/catalog.h"
#include "checkpoint/inspect/verify_digests.h"
#include "checkpoint/inspect/verify_header.h"
#include "checkpoint/manifest/manifest_file.h"
#include "checkpoint/manifest/names.h"
#include "checkpoint/manifest/places.h"

namespace stoker {
namespace {

/// How many chunks of large tensors may wait for an earlier one: as many as are read at once.
constexpr std::size_t kEarlyMax = 32;

/// Reads chunks of large tensors again, in order.
class LateDigests final : public ChunkHandler {
 public:
  LateDigests(const CheckpointManifest& manifest, DigestCheck& digests)
      : manifest_(manifest), digests_(digests) {
    std::set<std::pair<std::uint32_t, std::uint64_t>> wanted;
    for (const CheckpointTensor* const tensor : digests.begin_late())
      for (std::uint64_t at = tensor->begin_bytes - tensor->begin_bytes % kCheckpointChunkBytes;
           at < tensor->end_bytes; at += kCheckpointChunkBytes)
        wanted.emplace(tensor->file, at);
    for (const auto& [file, at] : wanted)
      reads_.push_back({.file = file,
                        .offset_bytes = at,
                        .size_bytes = static_cast<std::size_t>(std::min(
                            kCheckpointChunkBytes, manifest.files[file].size_bytes - at))});
  }
  std::span<const ChunkRead> reads() const { return reads_; }

  Status chunk_read(std::size_t index, std::span<const std::byte> bytes) override {
    const ChunkRead& read = reads_[index];
    const std::size_t chunk = read.offset_bytes / kCheckpointChunkBytes;
    if (xxh3_128(bytes) == manifest_.files[read.file].chunks[chunk])
      digests_.add(read.file, read.offset_bytes, bytes);
    return {};
  }
  /// It was reported when it was read first.
  Status chunk_failed(std::size_t /*index*/, const Status& status) override {
    return is_damage(status) ? Status() : status;
  }

 private:
  const CheckpointManifest& manifest_;
  DigestCheck& digests_;
  std::vector<ChunkRead> reads_;
};

/// One step's verification, file by file.
class StepCheck final : public ChunkHandler {
 public:
  StepCheck(const CheckpointStore& store, std::string name, const CheckpointVerifyOptions& options)
      : store_(store), name_(std::move(name)), options_(options) {}

  Result<CheckpointVerifyReport> run();

  Status chunk_read(std::size_t index, std::span<const std::byte> bytes) override;
  Status chunk_failed(std::size_t index, const Status& status) override;

 private:
  void add(CheckpointDamage damage);
  CheckpointDamage damage_in(const ChunkRead& read, DamageKind kind, std::string_view reason) const;
  Status check_names();
  void check_coverage();
  Status look_at_file(std::uint32_t index);
  Status check_headers();
  Status check_digests();
  Status check_files();
  void count(std::size_t size_bytes);

  const CheckpointStore& store_;
  const std::string name_;
  const CheckpointVerifyOptions& options_;
  CheckpointManifest manifest_;
  std::vector<CheckpointFile> found_;    // the files of the manifest, with their actual sizes
  std::vector<std::uint32_t> readable_;  // indexes of the files that exist
  std::unique_ptr<OpenStep> step_;
  std::shared_ptr<StoredFiles> files_;
  std::optional<DigestCheck> digests_;
  std::vector<ChunkRead> reads_;
  std::uint64_t total_bytes_ = 0;

  Mutex mutex_;
  CheckpointVerifyReport report_ STOKER_GUARDED_BY(mutex_);
  std::atomic<std::uint64_t> checked_bytes_{0};  // relaxed: a sum, read when the threads are gone
};

void StepCheck::add(CheckpointDamage damage) {
  damage.step = name_;
  const MutexLock lock(mutex_);
  report_.damages.push_back(std::move(damage));
}

void StepCheck::count(std::size_t size_bytes) {
  const std::uint64_t done =
      checked_bytes_.fetch_add(size_bytes, std::memory_order_relaxed) + size_bytes;
  if (options_.progress) options_.progress(name_, done, total_bytes_);
}

/// Reports files that the manifest does not name, and finds those that are elsewhere.
Status StepCheck::check_names() {
  STOKER_ASSIGN(const std::vector<std::string> names, step_->list_files());
  if (const Status found = find_places(manifest_, names, name_); !found.ok())
    add({.kind = DamageKind::missing_file,
         .step = {},
         .file = place_name(0),
         .reason = std::string(found.message())});
  std::set<std::string, std::less<>> expected = {std::string(kManifestName)};
  for (std::uint32_t i = 0; i < manifest_.places.size(); ++i) expected.insert(place_name(i));
  for (const CheckpointFile& file : manifest_.files) expected.insert(file.name);
  for (const std::string& name : names) {
    if (!expected.contains(name))
      add({.kind = DamageKind::foreign_file,
           .step = {},
           .file = name,
           .reason = "not in the manifest"});
  }
  return {};
}

/// Reports tensors with missing elements. Counting bytes is enough, because a manifest with
/// overlapping slices is rejected.
void StepCheck::check_coverage() {
  std::map<std::string_view, std::pair<const CheckpointTensor*, std::uint64_t>> saved;
  for (const CheckpointTensor& tensor : manifest_.tensors) {
    auto& [any, bytes] = saved[tensor.name];
    any = &tensor;
    bytes += tensor.end_bytes - tensor.begin_bytes;
  }
  for (const auto& [name, item] : saved) {
    const Result<std::uint64_t> whole = tensor_bytes(item.first->type, item.first->global_shape);
    if (whole.ok() && *whole == item.second) continue;
    add({.kind = DamageKind::missing_slice,
         .step = {},
         .file = std::string(kManifestName),
         .tensors = {std::string(name)},
         .reason = fmt::format("only {} bytes of the tensor are in the files", item.second)});
  }
}

/// Checks that a file exists with the right size, and plans its reads.
Status StepCheck::look_at_file(std::uint32_t index) {
  const CheckpointFile& named = manifest_.files[index];
  if (named.is_elsewhere) {
    const MutexLock lock(mutex_);
    ++report_.elsewhere_count;
    return {};
  }
  CheckpointDamage damage{.kind = DamageKind::missing_file,
                          .step = {},
                          .file = named.name,
                          .size_bytes = named.size_bytes,
                          .tensors = tensors_in(manifest_, index, 0, named.size_bytes),
                          .reason = "the file is missing"};
  const Result<FileInfo> info = step_->find_file(named.name);
  if (!info.ok() && !is_gone(info.status())) {
    if (!is_damage(info.status())) return info.status();
    damage.kind = DamageKind::unreadable;
    damage.reason = std::string(info.status().message());
  }
  if (info.ok() && info->kind != FileKind::regular) damage.reason = "not a regular file";
  if (!info.ok() || info->kind != FileKind::regular) {
    add(std::move(damage));
    return {};
  }
  const std::uint64_t there = info->size_bytes;
  found_.at(index).size_bytes = there;
  if (there != named.size_bytes) {
    const std::uint64_t least = std::min(there, named.size_bytes);
    add({.kind = DamageKind::wrong_size,
         .step = {},
         .file = named.name,
         .offset_bytes = least,
         .size_bytes = std::max(there, named.size_bytes) - least,
         .tensors = tensors_in(manifest_, index, least, named.size_bytes),
         .reason = fmt::format("the file has {} bytes, not {}", there, named.size_bytes)});
  }
  readable_.push_back(index);
  // The complete chunks of a truncated file are checked all the same.
  for (std::uint64_t at = 0; at < named.size_bytes; at += kCheckpointChunkBytes) {
    const std::uint64_t size = std::min(kCheckpointChunkBytes, named.size_bytes - at);
    if (at + size > there) break;
    reads_.push_back(
        {.file = index, .offset_bytes = at, .size_bytes = static_cast<std::size_t>(size)});
    total_bytes_ += size;
  }
  return {};
}

Status StepCheck::chunk_read(std::size_t index, std::span<const std::byte> bytes) {
  const ChunkRead& read = reads_[index];
  const std::size_t chunk = read.offset_bytes / kCheckpointChunkBytes;
  if (xxh3_128(bytes) != manifest_.files[read.file].chunks[chunk])
    add(damage_in(read, DamageKind::bad_bytes, describe_mismatch(bytes)));
  else
    digests_->add(read.file, read.offset_bytes, bytes);
  count(bytes.size());
  return {};
}

Status StepCheck::chunk_failed(std::size_t index, const Status& status) {
  const ChunkRead& read = reads_[index];
  if (!is_damage(status)) return status;
  add(damage_in(read, DamageKind::unreadable, status.message()));
  count(read.size_bytes);
  return {};
}

CheckpointDamage StepCheck::damage_in(const ChunkRead& read, DamageKind kind,
                                      std::string_view reason) const {
  return {.kind = kind,
          .step = {},
          .file = manifest_.files[read.file].name,
          .offset_bytes = read.offset_bytes,
          .size_bytes = read.size_bytes,
          .tensors = tensors_in(manifest_, read.file, read.offset_bytes,
                                read.offset_bytes + read.size_bytes),
          .reason = std::string(reason)};
}

/// Checks the headers of undamaged files. If one contradicts the manifest, the writer made an
/// error, or the manifest belongs to other files.
Status StepCheck::check_headers() {
  std::set<std::string> damaged;
  {
    const MutexLock lock(mutex_);
    for (const CheckpointDamage& damage : report_.damages) damaged.insert(damage.file);
  }
  for (const std::uint32_t index : readable_) {
    const CheckpointFile& named = manifest_.files[index];
    if (damaged.contains(named.name)) continue;
    const Status status = check_header(*files_, found_[index].size_bytes, manifest_, index);
    if (!status.ok() && !is_damage(status)) return status;
    if (!status.ok())
      add({.kind = DamageKind::bad_header,
           .step = {},
           .file = named.name,
           .tensors = tensors_in(manifest_, index, 0, named.size_bytes),
           .reason = std::string(status.message())});
  }
  return {};
}

/// Reports tensors with another digest than the manifest says. Damaged bytes are found before, by
/// chunks: here the writer made an error, or the manifest was changed.
Status StepCheck::check_digests() {
  LateDigests late(manifest_, *digests_);
  if (!late.reads().empty())
    STOKER_TRY(
        files_->read(late.reads(), late,
                     {.engine = options_.reader.engine, .thread_count = 1, .stop = options_.stop}));
  for (const CheckpointTensor* const tensor : digests_->wrong())
    add({.kind = DamageKind::bad_digest,
         .step = {},
         .file = manifest_.files[tensor->file].name,
         .offset_bytes = tensor->begin_bytes,
         .size_bytes = tensor->end_bytes - tensor->begin_bytes,
         .tensors = {tensor->name},
         .reason = "its bytes have another digest than the manifest says"});
  return {};
}

Status StepCheck::check_files() {
  STOKER_ASSIGN(step_, store_.open_step(name_));
  STOKER_TRY(check_names());
  check_coverage();
  found_ = manifest_.files;
  for (std::uint32_t i = 0; i < manifest_.files.size(); ++i) STOKER_TRY(look_at_file(i));
  files_ = step_->files(found_, options_.reader.file);
  digests_.emplace(manifest_, kEarlyMax);
  STOKER_TRY(files_->read(reads_, *this,
                          {.engine = options_.reader.engine,
                           .thread_count = options_.reader.thread_count,
                           .depth = options_.reader.depth,
                           .stop = options_.stop}));
  STOKER_TRY(check_digests());
  return check_headers();
}

Result<CheckpointVerifyReport> StepCheck::run() {
  STOKER_ASSIGN(const StoredStep there, store_.find_step(name_));
  const auto bad_manifest = [&](std::string_view reason) {
    add({.kind = DamageKind::bad_manifest,
         .step = {},
         .file = std::string(kManifestName),
         .reason = std::string(reason)});
  };
  if (!there.is_checkpoint) {
    bad_manifest("not a directory");
  } else {
    Result<CheckpointManifest> manifest = store_.read_manifest(name_);
    const std::optional<StepName> parsed = parse_step_name(name_);
    if (manifest.ok() && parsed && manifest->step != parsed->step)
      manifest = Status(Code::corrupt, "it is that of step " + std::to_string(manifest->step));
    if (manifest.ok()) {
      manifest_ = *std::move(manifest);
      STOKER_TRY(check_files());
    } else if (is_damage(manifest.status()) || is_gone(manifest.status()) ||
               manifest.status().code() == Code::unsupported) {
      bad_manifest(manifest.status().message());
    } else {
      return manifest.status();
    }
  }
  // A step that was removed during the check is not damaged.
  STOKER_TRY(store_.find_step(name_).status());
  const MutexLock lock(mutex_);
  report_.step_count = 1;
  report_.checked_bytes = checked_bytes_.load(std::memory_order_relaxed);
  std::ranges::sort(report_.damages, [](const CheckpointDamage& a, const CheckpointDamage& b) {
    return std::tie(a.file, a.offset_bytes) < std::tie(b.file, b.offset_bytes);
  });
  return report_;
}

}  // namespace

std::string_view damage_kind_name(DamageKind kind) noexcept {
  switch (kind) {
    case DamageKind::bad_manifest: return "bad_manifest";
    case DamageKind::missing_file: return "missing_file";
    case DamageKind::wrong_size: return "wrong_size";
    case DamageKind::bad_bytes: return "bad_bytes";
    case DamageKind::unreadable: return "unreadable";
    case DamageKind::bad_header: return "bad_header";
    case DamageKind::bad_digest: return "bad_digest";
    case DamageKind::missing_slice: return "missing_slice";
    case DamageKind::foreign_file: return "foreign_file";
    case DamageKind::bad_latest: return "bad_latest";
  }
  return "unknown";
}

Result<CheckpointVerifyReport> verify_checkpoint(const CheckpointStore& store,
                                                 const std::string& name,
                                                 const CheckpointVerifyOptions& options) {
  return StepCheck(store, name, options).run();
}

}  // namespace stoker
