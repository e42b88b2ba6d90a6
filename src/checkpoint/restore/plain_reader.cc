// Files of other programs, read as a checkpoint that has no checksums.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <set>
#include <utility>

#include "checkpoint/restore/reader.h"
#include "io/files/exact_transfer.h"
#include "io/files/file_ops.h"
#include "io/files/path_at.h"
#include "stoker/safetensors.h"

namespace stoker {
namespace {

/// Files without checksums can at least be compared with what they were when they were opened. One
/// that was replaced by a rename stays the one that is open.
Status check_unchanged(const File& file) {
  struct stat info{};
  if (::fstat(file.buffered_fd(), &info) != 0)
    return Status::from_errno(errno, "fstat", file.path());
  const FileInfo now = file_info_of(info);
  if (now.size_bytes == file.size_bytes() && now.modified_ns == file.modified_ns()) return {};
  return {Code::unavailable,
          file.path() + ": it has been changed since it was opened: load it again"};
}

/// Files that are all open.
///
/// Thread safety: immutable.
class PlainFiles final : public ChunkFiles, public StoredFiles {
 public:
  explicit PlainFiles(std::vector<std::shared_ptr<const File>> files) : files_(std::move(files)) {}

  Status open_all() override { return {}; }
  Status read(std::span<const ChunkRead> reads, ChunkHandler& handler,
              const ChunkReadOptions& options) override {
    STOKER_TRY(read_chunks(*this, reads, handler, options));
    std::set<std::uint32_t> used;
    for (const ChunkRead& one : reads) used.insert(one.file);
    for (const std::uint32_t index : used) STOKER_TRY(check_unchanged(*files_[index]));
    return {};
  }
  std::string path_of(std::uint32_t index) const override { return files_[index]->path(); }
  Result<std::shared_ptr<const File>> get(std::uint32_t index) override { return files_[index]; }

 private:
  const std::vector<std::shared_ptr<const File>> files_;
};

Result<SafetensorsHeader> read_header(const File& file) {
  std::vector<std::byte> bytes(8);
  STOKER_TRY(read_exactly(file.buffered_fd(), 0, bytes, "header"));
  STOKER_ASSIGN(const std::uint64_t size, safetensors_header_bytes(bytes, file.size_bytes()));
  bytes.resize(static_cast<std::size_t>(size));
  STOKER_TRY(read_exactly(file.buffered_fd(), 0, bytes, "header"));
  return parse_safetensors(bytes, file.size_bytes());
}

}  // namespace

Result<CheckpointReader> CheckpointReader::open_plain(FileOps& ops,
                                                      std::span<const std::string> paths,
                                                      const Options& options) {
  CheckpointManifest manifest;
  std::vector<std::shared_ptr<const File>> files;
  std::set<std::string> names;
  for (const std::string& path : paths) {
    STOKER_ASSIGN(File file, File::open(ops, path, options.file));
    Result<SafetensorsHeader> header = read_header(file);
    STOKER_TRY(header.status().with_context(path));
    const auto number = static_cast<std::uint32_t>(files.size());
    for (SafetensorsEntry& entry : header->entries) {
      if (!names.insert(entry.name).second)
        return Status(Code::corrupt, path + ": tensor " + entry.name + " is in another file too");
      manifest.tensors.push_back({.name = std::move(entry.name),
                                  .type = entry.type,
                                  .global_shape = entry.shape,
                                  .offsets = std::vector<std::uint64_t>(entry.shape.size()),
                                  .shape = entry.shape,
                                  .file = number,
                                  .begin_bytes = header->data_offset_bytes + entry.begin_bytes,
                                  .end_bytes = header->data_offset_bytes + entry.end_bytes});
    }
    manifest.files.push_back(
        {.name = std::string(PathAt(path).last()), .size_bytes = file.size_bytes(), .chunks = {}});
    files.push_back(std::make_shared<const File>(std::move(file)));
  }
  CheckpointReader reader;
  reader.options_ = options;
  reader.directory_ = paths.empty() ? "" : PathAt(paths.front()).parent().text();
  reader.has_checksums_ = false;
  reader.files_ = std::make_shared<PlainFiles>(std::move(files));
  reader.manifest_ = std::make_shared<const CheckpointManifest>(std::move(manifest));
  reader.list_tensors();
  return reader;
}

}  // namespace stoker
