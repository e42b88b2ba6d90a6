#include "store/local_store.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "io/engine/engine.h"
#include "io/files/directories.h"
#include "io/files/file.h"
#include "io/files/publish.h"

namespace stoker {
namespace {

ObjectInfo info_of(const struct stat& status) {
  const FileInfo info = file_info_of(status);
  return {.size_bytes = info.size_bytes, .version = info.modified_ns};
}

Result<ObjectInfo> info_of(int fd, const std::string& path) {
  struct stat status{};
  if (::fstat(fd, &status) != 0) return Status::from_errno(errno, "fstat", path);
  return info_of(status);
}

class LocalObject final : public Object {
 public:
  explicit LocalObject(File file)
      : file_(std::move(file)),
        info_{.size_bytes = file_.size_bytes(), .version = file_.modified_ns()} {}

  const std::string& key() const noexcept override { return file_.path(); }
  const ObjectInfo& info() const noexcept override { return info_; }
  Result<ObjectInfo> info_now() const override { return info_of(file_.buffered_fd(), key()); }
  const File* file() const noexcept override { return &file_; }
  std::size_t scratch_bytes(std::uint64_t offset_bytes, std::size_t size_bytes) const override {
    return file_.scratch_bytes(offset_bytes, size_bytes);
  }
  Result<std::span<std::byte>> read(std::uint64_t offset_bytes, std::size_t size_bytes,
                                    std::span<std::byte> memory) const override {
    return file_.read(offset_bytes, size_bytes, memory);
  }

 private:
  const File file_;
  const ObjectInfo info_;
};

class LocalUpload final : public Upload {
 public:
  LocalUpload(FilePublisher file, std::string key)
      : file_(std::move(file)), context_("publish " + key), key_(std::move(key)) {}

  Status append(std::span<const std::byte> data) override {
    return file_.append(data).with_context(context_);
  }
  Result<ObjectInfo> commit() && override { return publish(IfExists::replace); }
  Result<ObjectInfo> commit_if_absent() && override { return publish(IfExists::fail); }

 private:
  Result<ObjectInfo> publish(IfExists if_exists) {
    STOKER_TRY(make_version_new());
    STOKER_ASSIGN(const ObjectInfo info, info_of(file_.fd(), key_));  // a rename does not change it
    STOKER_TRY(std::move(file_).commit(if_exists).with_context(context_));
    return info;
  }

  /// Makes the new object's modification time later than that of the object it replaces: the
  /// kernel's clock for files advances only every few milliseconds.
  Status make_version_new() const {
    struct stat old{};
    if (::stat(key_.c_str(), &old) != 0) return {};
    STOKER_ASSIGN(const ObjectInfo info, info_of(file_.fd(), key_));
    if (info.version > info_of(old).version) return {};
    constexpr long kNsMax = 999'999'999;
    timespec later = old.st_mtim;
    if (later.tv_nsec++ == kNsMax) later = {.tv_sec = old.st_mtim.tv_sec + 1, .tv_nsec = 0};
    const timespec times[2] = {later, later};
    if (::futimens(file_.fd(), times) != 0) return Status::from_errno(errno, "futimens", key_);
    return {};
  }

  FilePublisher file_;
  const std::string context_;
  const std::string key_;
};

class LocalStore final : public ObjectStore {
 public:
  explicit LocalStore(FileOps& ops) : ops_(ops) {}

  bool is_local() const noexcept override { return true; }

  std::string identity_of(const std::string& key) override {
    struct stat status{};
    std::error_code failed;
    const std::filesystem::path path = std::filesystem::absolute(key, failed);
    if (failed || ::stat(key.c_str(), &status) != 0) return {};
    return "file://" + path.lexically_normal().string() + "#" + std::to_string(status.st_ino);
  }

  Result<std::unique_ptr<const Object>> open(const std::string& key, CachePolicy policy) override {
    return open_local_object(ops_, key, policy);
  }

  Result<Entry> look(const std::string& key) override {
    struct stat status{};
    if (::stat(key.c_str(), &status) != 0) return Status::from_errno(errno, "stat", key);
    if (S_ISREG(status.st_mode)) return Entry{.kind = Kind::object, .info = info_of(status)};
    return Entry{.kind = S_ISDIR(status.st_mode) ? Kind::folder : Kind::other};
  }

  Status list(const std::string& folder, const Found& found) override {
    STOKER_ASSIGN(const std::vector<DirectoryName> names, ops_.list_names(folder));
    for (const DirectoryName& name : names)
      if (!found(name.name, kind_of(folder, name))) break;
    return {};
  }

  Result<std::unique_ptr<RangeSource>> make_source(std::uint32_t depth) override {
    STOKER_ASSIGN(std::unique_ptr<Engine> engine,
                  make_engine(EngineKind::automatic, {.depth = depth}));
    return std::unique_ptr<RangeSource>(std::move(engine));
  }

  Result<std::unique_ptr<Upload>> upload(const std::string& key) override {
    STOKER_TRY(make_directories(ops_, parent_of(key)));
    Result<FilePublisher> staged = FilePublisher::create(ops_, key);
    if (!staged.ok()) return staged.status().with_context("publish " + key);
    return std::unique_ptr<Upload>(std::make_unique<LocalUpload>(*std::move(staged), key));
  }

  Status remove(const std::string& key) override {
    const Status status = ops_.unlink(key);
    if (status.code() == Code::not_found) return {};
    STOKER_TRY(status);
    return ops_.fsync_dir(parent_of(key));
  }

 private:
  /// Returns the kind of the target for a symbolic link.
  Kind kind_of(const std::string& folder, const DirectoryName& name) {
    switch (name.kind) {
      case FileKind::regular: return Kind::object;
      case FileKind::directory: return Kind::folder;
      case FileKind::other: return Kind::other;
      case FileKind::symlink: break;
    }
    const Result<Entry> target = look(folder + "/" + name.name);
    return target.ok() ? target->kind : Kind::other;
  }

  FileOps& ops_;
};

}  // namespace

std::shared_ptr<ObjectStore> local_store() {
  static const std::shared_ptr<ObjectStore> store = make_local_store(posix_file_ops());
  return store;
}

std::shared_ptr<ObjectStore> make_local_store(FileOps& ops) {
  return std::make_shared<LocalStore>(ops);
}

Result<std::unique_ptr<const Object>> open_local_object(FileOps& ops, const PathAt& path,
                                                        CachePolicy policy) {
  STOKER_ASSIGN(File file, File::open(ops, path, {.policy = policy}));
  return std::unique_ptr<const Object>(std::make_unique<LocalObject>(std::move(file)));
}

}  // namespace stoker
