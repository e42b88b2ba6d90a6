#include "checkpoint/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>

#include "checkpoint/names.h"
#include "checkpoint/text_file.h"
#include "io/publish.h"

namespace stoker {
namespace {

constexpr std::size_t kManifestBytesMax = std::size_t{1} << 30;
constexpr int kAttemptsMax = 10;

Status corrupt(std::string message) {
  return {Code::corrupt, std::move(message)};
}

/// `latest` may move at any moment: what it leads to now is the checkpoint that is meant.
Result<std::string> without_link(FileOps& ops, const std::string& directory) {
  std::string path = directory;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  STOKER_ASSIGN(const FileKind kind, ops.kind_of(path));
  if (kind != FileKind::symlink) return path;
  STOKER_ASSIGN(const std::string target, ops.read_link(path));
  if (target.starts_with("/")) return target;
  return parent_of(path) + "/" + target;
}

Result<File> open_file(FileOps& ops, const std::string& directory, const CheckpointFile& file,
                       const File::Options& options) {
  const std::string path = directory + "/" + file.name;
  STOKER_ASSIGN(const FileKind kind, ops.kind_of(path));
  if (kind != FileKind::regular) return corrupt(path + ": not a regular file");
  STOKER_ASSIGN(File opened, File::open(ops, path, options));
  if (opened.size_bytes() != file.size_bytes)
    return corrupt(fmt::format("{}, offset {}: the file has {} bytes, not {}", path,
                               std::min(opened.size_bytes(), file.size_bytes), opened.size_bytes(),
                               file.size_bytes));
  return opened;
}

}  // namespace

Result<CheckpointReader> CheckpointReader::open_once(FileOps& ops, const std::string& directory,
                                                     const Options& options) {
  CheckpointReader reader;
  reader.options_ = options;
  STOKER_ASSIGN(reader.directory_, without_link(ops, directory));
  const std::string path = reader.directory_ + "/" + std::string(kManifestName);
  STOKER_ASSIGN(const std::string text, read_text_file(ops, path, kManifestBytesMax));
  STOKER_ASSIGN(CheckpointManifest manifest, parse_checkpoint_manifest(text, path));
  Status failure;
  for (const CheckpointFile& file : manifest.files) {
    Result<File> opened = open_file(ops, reader.directory_, file, options.file);
    if (!opened.ok()) {
      failure = opened.status();
      break;
    }
    reader.files_.push_back(*std::move(opened));
    reader.is_verified_.push_back(std::make_unique<std::atomic<bool>[]>(file.chunks.size()));
  }
  // A rewound run may have put another checkpoint in this one's place, between the manifest and the
  // last file. The same manifest at the end is the proof that it has not.
  STOKER_ASSIGN(const std::string again, read_text_file(ops, path, kManifestBytesMax));
  if (again != text) return Status(Code::unavailable, path + ": was replaced");
  if (failure.code() == Code::not_found)
    return corrupt(fmt::format("{}: names a file that is not there: {}", path, failure.message()));
  STOKER_TRY(failure);
  reader.manifest_ = std::make_shared<const CheckpointManifest>(std::move(manifest));
  reader.list_tensors();
  return reader;
}

Result<CheckpointReader> CheckpointReader::open(FileOps& ops, const std::string& directory,
                                                const Options& options) {
  for (int attempt = 1;; ++attempt) {
    Result<CheckpointReader> reader = open_once(ops, directory, options);
    const bool is_moving =
        reader.status().code() == Code::unavailable || reader.status().os_error() == ESTALE;
    if (!is_moving || attempt == kAttemptsMax) return reader;
  }
}

void CheckpointReader::list_tensors() {
  std::map<std::string_view, TensorInfo> by_name;
  for (std::uint32_t i = 0; i < manifest_->tensors.size(); ++i) {
    const CheckpointTensor& tensor = manifest_->tensors[i];
    TensorInfo& info = by_name[tensor.name];
    if (info.slices.empty()) {
      info.name = tensor.name;
      info.type = tensor.type;
      info.shape = tensor.global_shape;
      // The manifest was refused if there were no such number.
      info.size_bytes = *tensor_bytes(tensor.type, tensor.global_shape);
    }
    info.slices.push_back(i);
  }
  for (auto& [name, info] : by_name) tensors_.push_back(std::move(info));
}

const TensorInfo* CheckpointReader::find(std::string_view name) const noexcept {
  const auto found = std::ranges::lower_bound(tensors_, name, {}, &TensorInfo::name);
  return found == tensors_.end() || found->name != name ? nullptr : &*found;
}

Status CheckpointReader::read_all(std::span<const ReadTarget> targets,
                                  const ReadOptions& options) const {
  ReadRun run(*manifest_, files_, is_verified_);
  for (const ReadTarget& target : targets) {
    const TensorInfo* tensor = find(target.name);
    if (tensor == nullptr)
      return Status(Code::not_found, directory_ + ": there is no tensor " + target.name);
    STOKER_TRY(run.add(tensor->slices, target).with_context(directory_));
  }
  return run.run({.engine = options_.engine,
                  .thread_count = options_.thread_count,
                  .depth = options_.depth,
                  .stop = options.stop},
                 options.read_bytes);
}

}  // namespace stoker
