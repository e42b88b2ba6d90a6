#include "checkpoint/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/mutex.h"
#include "checkpoint/catalog.h"
#include "checkpoint/history.h"
#include "checkpoint/verify_header.h"

namespace stoker {
namespace {

/// One step's verification, file by file.
class StepCheck final : public ChunkHandler {
 public:
  StepCheck(FileOps& ops, std::string path, std::string name,
            const CheckpointVerifyOptions& options)
      : ops_(ops), path_(std::move(path)), name_(std::move(name)), options_(options) {}

  Result<CheckpointVerifyReport> run();

  Status chunk_read(std::size_t index, std::span<const std::byte> bytes) override;
  Status chunk_failed(std::size_t index, const Status& status) override;

 private:
  void add(CheckpointDamage damage);
  CheckpointDamage damage_in(const ChunkRead& read, DamageKind kind, std::string_view reason) const;
  Status check_names();
  void check_coverage();
  void open_file(std::uint32_t index);
  void check_headers();
  void count(std::size_t size_bytes);

  FileOps& ops_;
  const std::string path_;
  const std::string name_;
  const CheckpointVerifyOptions& options_;
  CheckpointManifest manifest_;
  std::vector<File> files_;
  std::vector<std::uint32_t> numbers_;  // in the manifest, of each of files_
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

/// Files that nobody has named, and files that were named and are not there.
Status StepCheck::check_names() {
  STOKER_ASSIGN(const std::vector<std::string> names, ops_.list(path_));
  std::set<std::string_view> expected = {kManifestName};
  for (const CheckpointFile& file : manifest_.files) expected.insert(file.name);
  for (const std::string& name : names) {
    if (!expected.contains(name))
      add({.kind = DamageKind::foreign_file,
           .step = {},
           .file = name,
           .reason = "the manifest does not name it"});
  }
  return {};
}

/// The manifest was refused if slices overlap, so counting them suffices.
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
         .reason = fmt::format("only {} bytes of the tensor are in any file", item.second)});
  }
}

void StepCheck::open_file(std::uint32_t index) {
  const CheckpointFile& named = manifest_.files[index];
  CheckpointDamage damage{.kind = DamageKind::missing_file,
                          .step = {},
                          .file = named.name,
                          .size_bytes = named.size_bytes,
                          .tensors = tensors_in(manifest_, index, 0, named.size_bytes),
                          .reason = "the file is not there"};
  const std::string path = path_ + "/" + named.name;
  const Result<FileKind> kind = ops_.kind_of(path);
  if (kind.ok() && *kind != FileKind::regular) {
    damage.reason = "it is no regular file";
    add(std::move(damage));
    return;
  }
  Result<File> file = File::open(ops_, path, options_.reader.file);
  if (!file.ok()) {
    if (!is_gone(file.status())) {
      damage.kind = DamageKind::unreadable;
      damage.reason = std::string(file.status().message());
    }
    add(std::move(damage));
    return;
  }
  const std::uint64_t there = file->size_bytes();
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
  // What is there of a file that was cut off is read all the same, as far as checksums go.
  for (std::uint64_t at = 0; at < named.size_bytes; at += kCheckpointChunkBytes) {
    const std::uint64_t size = std::min(kCheckpointChunkBytes, named.size_bytes - at);
    if (at + size > there) break;
    reads_.push_back({.file = static_cast<std::uint32_t>(files_.size()),
                      .offset_bytes = at,
                      .size_bytes = static_cast<std::size_t>(size)});
    total_bytes_ += size;
  }
  files_.push_back(*std::move(file));
  numbers_.push_back(index);
}

Status StepCheck::chunk_read(std::size_t index, std::span<const std::byte> bytes) {
  const ChunkRead& read = reads_[index];
  const std::uint32_t number = numbers_[read.file];
  const std::size_t chunk = read.offset_bytes / kCheckpointChunkBytes;
  if (xxh3_128(bytes) != manifest_.files[number].chunks[chunk])
    add(damage_in(read, DamageKind::bad_bytes, describe_mismatch(bytes)));
  count(bytes.size());
  return {};
}

Status StepCheck::chunk_failed(std::size_t index, const Status& status) {
  const ChunkRead& read = reads_[index];
  add(damage_in(read, DamageKind::unreadable, status.message()));
  count(read.size_bytes);
  return {};
}

CheckpointDamage StepCheck::damage_in(const ChunkRead& read, DamageKind kind,
                                      std::string_view reason) const {
  const std::uint32_t number = numbers_[read.file];
  return {.kind = kind,
          .step = {},
          .file = manifest_.files[number].name,
          .offset_bytes = read.offset_bytes,
          .size_bytes = read.size_bytes,
          .tensors =
              tensors_in(manifest_, number, read.offset_bytes, read.offset_bytes + read.size_bytes),
          .reason = std::string(reason)};
}

/// Of files whose bytes are those that were written: a header that tells otherwise then shows a
/// writer's error, or a manifest that belongs to other files.
void StepCheck::check_headers() {
  std::set<std::string> damaged;
  {
    const MutexLock lock(mutex_);
    for (const CheckpointDamage& damage : report_.damages) damaged.insert(damage.file);
  }
  for (std::size_t i = 0; i < files_.size(); ++i) {
    const CheckpointFile& named = manifest_.files[numbers_[i]];
    if (damaged.contains(named.name)) continue;
    const Status status = check_header(files_[i], manifest_, numbers_[i]);
    if (!status.ok())
      add({.kind = DamageKind::bad_header,
           .step = {},
           .file = named.name,
           .tensors = tensors_in(manifest_, numbers_[i], 0, named.size_bytes),
           .reason = std::string(status.message())});
  }
}

Result<CheckpointVerifyReport> StepCheck::run() {
  Result<CheckpointManifest> manifest = read_checkpoint_manifest(ops_, path_);
  const std::optional<StepName> parsed = parse_step_name(name_);
  if (manifest.ok() && parsed && manifest->step != parsed->step)
    manifest = Status(Code::corrupt, "it is of step " + std::to_string(manifest->step));
  if (!manifest.ok()) {
    STOKER_ASSIGN(const FileKind kind, ops_.kind_of(path_));  // gone altogether?
    static_cast<void>(kind);
    add({.kind = DamageKind::bad_manifest,
         .step = {},
         .file = std::string(kManifestName),
         .reason = std::string(manifest.status().message())});
  } else {
    manifest_ = *std::move(manifest);
    STOKER_TRY(check_names());
    check_coverage();
    for (std::uint32_t i = 0; i < manifest_.files.size(); ++i) open_file(i);
    STOKER_TRY(read_chunks(files_, reads_, *this,
                           {.engine = options_.reader.engine,
                            .thread_count = options_.reader.thread_count,
                            .depth = options_.reader.depth,
                            .stop = options_.stop}));
    check_headers();
    // A step that went away while it was looked at is no damaged one.
    STOKER_ASSIGN(const FileKind kind, ops_.kind_of(path_));
    static_cast<void>(kind);
  }
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
    case DamageKind::missing_slice: return "missing_slice";
    case DamageKind::foreign_file: return "foreign_file";
    case DamageKind::bad_latest: return "bad_latest";
  }
  return "unknown";
}

Result<CheckpointVerifyReport> verify_checkpoint(FileOps& ops, const std::string& directory,
                                                 const std::string& name,
                                                 const CheckpointVerifyOptions& options) {
  return StepCheck(ops, directory + "/" + name, name, options).run();
}

Result<CheckpointVerifyReport> verify_checkpoints(FileOps& ops, const std::string& directory,
                                                  const CheckpointVerifyOptions& options) {
  STOKER_ASSIGN(const Catalog catalog, list_checkpoints(ops, directory));
  CheckpointVerifyReport all;
  for (const CatalogStep& step : catalog.steps) {
    Result<CheckpointVerifyReport> report = verify_checkpoint(ops, directory, step.name, options);
    if (!report.ok() && is_gone(report.status())) continue;
    if (!report.ok()) return report.status();
    ++all.step_count;
    all.checked_bytes += report->checked_bytes;
    std::ranges::move(report->damages, std::back_inserter(all.damages));
  }
  if (std::optional<CheckpointDamage> damage = check_latest(ops, directory))
    all.damages.push_back(*std::move(damage));
  return all;
}

std::optional<CheckpointDamage> check_latest(FileOps& ops, const std::string& directory) {
  const Result<FileKind> kind = ops.kind_of(directory + "/" + std::string(kLatestName));
  if (kind.ok() && *kind != FileKind::symlink)
    return CheckpointDamage{.kind = DamageKind::bad_latest,
                            .step = "",
                            .file = std::string(kLatestName),
                            .reason =
                                "it is no symbolic link, and no save can make it one: give "
                                "it another name"};
  const Result<Catalog> catalog = list_checkpoints(ops, directory);
  if (!catalog.ok() || catalog->latest.empty()) return std::nullopt;
  if (catalog->find(catalog->latest) != nullptr) return std::nullopt;
  // It is read after the list was made: a commit may have moved it to a step that is newer.
  const bool is_step = parse_step_name(catalog->latest).has_value();
  if (is_step && ops.kind_of(directory + "/" + catalog->latest).ok()) return std::nullopt;
  return CheckpointDamage{.kind = DamageKind::bad_latest,
                          .step = catalog->latest,
                          .file = std::string(kLatestName),
                          .reason = "there is no such checkpoint"};
}

}  // namespace stoker
