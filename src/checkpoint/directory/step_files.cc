#include "checkpoint/directory/step_files.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "checkpoint/manifest/manifest_file.h"
#include "checkpoint/manifest/names.h"
#include "io/files/directories.h"

namespace stoker {
namespace {

/// Files that use a quarter of the process's descriptor limit, at two descriptors each.
std::size_t kept_files_max() {
  constexpr rlim_t kShare = 8;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1;
  return static_cast<std::size_t>(std::clamp<rlim_t>(limit.rlim_cur / kShare, 1, 1U << 20));
}

bool is_out_of_descriptors(const Status& status) {
  return status.os_error() == EMFILE || status.os_error() == ENFILE;
}

}  // namespace

StepFiles::StepFiles(FileOps& ops, std::shared_ptr<const RootDirectory> step,
                     const std::vector<CheckpointFile>& files, const File::Options& options)
    : ops_(ops),
      step_(std::move(step)),
      files_([&] {
        std::vector<Named> named;
        for (const CheckpointFile& file : files)
          named.push_back({file.name, file.size_bytes, file.is_elsewhere});
        return named;
      }()),
      options_(options),
      kept_(files.size()),
      kept_max_(kept_files_max()) {}

std::string StepFiles::path_of(std::uint32_t index) const {
  return PathAt(step_, files_[index].name).text();
}

Result<std::shared_ptr<const File>> StepFiles::open(const Named& named) const {
  const PathAt path(step_, named.name);
  Result<File> file = File::open(ops_, path, options_);
  if (file.status().code() == Code::invalid_argument)
    return Status(Code::corrupt, std::string(file.status().message()), file.status().os_error());
  if (file.status().code() == Code::not_found) {
    // A checkpoint without its manifest is being removed; one with its manifest is damaged.
    const PathAt manifest(step_, kManifestName);
    if (!ops_.info_of(manifest).ok()) return file.status();
    return Status(
        Code::corrupt,
        manifest.text() + ": names a missing file: " + std::string(file.status().message()),
        ENOENT);
  }
  if (!file.ok()) return file.status();
  if (file->size_bytes() != named.size_bytes)
    return Status(Code::corrupt,
                  fmt::format("{}, offset {}: the file has {} bytes, not {}", path.text(),
                              std::min(file->size_bytes(), named.size_bytes), file->size_bytes(),
                              named.size_bytes));
  return std::make_shared<const File>(*std::move(file));
}

/// Closes the files that are not being read, and keeps fewer open from now on. Returns false if it
/// closed none.
bool StepFiles::let_go() {
  const MutexLock lock(mutex_);
  const std::size_t before = kept_count_;
  for (std::shared_ptr<const File>& file : kept_) {
    if (file == nullptr || file.use_count() > 1) continue;
    file.reset();
    --kept_count_;
  }
  kept_max_ = std::max<std::size_t>(1, kept_max_ / 2);
  return kept_count_ < before;
}

Result<std::shared_ptr<const File>> StepFiles::get(std::uint32_t index) {
  {
    const MutexLock lock(mutex_);
    if (kept_[index] != nullptr) return kept_[index];
  }
  Result<std::shared_ptr<const File>> file = open(files_[index]);
  while (is_out_of_descriptors(file.status()) && let_go()) file = open(files_[index]);
  if (!file.ok()) return file;
  const MutexLock lock(mutex_);
  if (kept_[index] == nullptr && kept_count_ < kept_max_) {
    kept_[index] = *file;
    ++kept_count_;
  }
  return file;
}

Status StepFiles::open_all() {
  for (std::uint32_t i = 0; i < files_.size(); ++i)
    if (!files_[i].is_elsewhere) STOKER_TRY(get(i).status());
  return {};
}

namespace {

/// Looks up everything from the descriptor of the checkpoint's own directory.
class StepDirectory final : public OpenStep {
 public:
  StepDirectory(FileOps& ops, std::string path, std::shared_ptr<const RootDirectory> root)
      : ops_(ops), path_(std::move(path)), root_(std::move(root)) {}

  const std::string& path() const noexcept override { return path_; }
  Result<CheckpointManifest> read_manifest() const override {
    return read_checkpoint_manifest(ops_, PathAt(root_, ""));
  }
  Result<std::vector<std::string>> list_files() const override {
    return ops_.list(PathAt(root_, ""));
  }
  Result<FileInfo> find_file(std::string_view name) const override {
    return ops_.info_of(PathAt(root_, name));
  }
  std::shared_ptr<StoredFiles> files(const std::vector<CheckpointFile>& files,
                                     const File::Options& options) const override {
    return std::make_shared<StepFiles>(ops_, root_, files, options);
  }

 private:
  FileOps& ops_;
  const std::string path_;
  const std::shared_ptr<const RootDirectory> root_;
};

}  // namespace

Result<std::unique_ptr<OpenStep>> open_step_directory(FileOps& ops, const PathAt& path) {
  Result<std::shared_ptr<const RootDirectory>> root = open_root(ops, path);
  if (root.status().code() == Code::invalid_argument)
    return Status(Code::corrupt, path.text() + ": not a directory", root.status().os_error());
  if (!root.ok()) return root.status();
  return std::unique_ptr<OpenStep>(
      std::make_unique<StepDirectory>(ops, path.text(), *std::move(root)));
}

}  // namespace stoker
