#include "checkpoint/inspect/export.h"

#include <fcntl.h>

#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "base/hex.h"
#include "base/token.h"
#include "checkpoint/inspect/export_plan.h"
#include "checkpoint/restore/tensor_boxes.h"
#include "io/files/directories.h"
#include "io/files/exact_transfer.h"
#include "io/files/publish.h"
#include "io/files/text_file.h"

namespace stoker {
namespace {

constexpr std::size_t kDataAlignBytes = 4096;

/// A file that is written sequentially and hashed on the way.
class SummedFile {
 public:
  static Result<SummedFile> create(FileOps& ops, const PathAt& path) {
    SummedFile file(ops, path);
    STOKER_ASSIGN(file.fd_, ops.open(path, O_WRONLY | O_CREAT | O_EXCL));
    return file;
  }

  Status append(std::span<const std::byte> data) {
    sum_.update(data);
    STOKER_TRY(write_exactly(*ops_, fd_.get(), size_bytes_, data).with_context(path_.text()));
    size_bytes_ += data.size();
    return {};
  }

  /// Makes the file durable and returns its line for `sha256sum -c`.
  Result<std::string> finish(std::string_view name) && {
    STOKER_TRY(ops_->fsync(fd_.get()).with_context(path_.text()));
    STOKER_TRY(ops_->close(std::move(fd_)).with_context(path_.text()));
    STOKER_ASSIGN(const Sha256Digest digest, sum_.digest());
    return format_hex(digest) + "  " + std::string(name) + "\n";
  }

  std::uint64_t size_bytes() const { return size_bytes_; }

 private:
  SummedFile(FileOps& ops, PathAt path) : ops_(&ops), path_(std::move(path)) {}

  FileOps* ops_;
  PathAt path_;
  UniqueFd fd_;
  Sha256Stream sum_;
  std::uint64_t size_bytes_ = 0;
};

struct Export {
  const CheckpointReader& reader;
  FileOps& ops;
  const ExportOptions& options;
  ExportReport report = {};
  std::uint64_t done_bytes = 0;
  std::uint64_t total_bytes = 0;

  void count(std::span<const ExportFile> files) {
    for (const ExportFile& file : files)
      for (const TensorInfo* tensor : file.tensors) total_bytes += tensor->size_bytes;
  }
};

/// Writes one file of tensors to `path` and returns its line for `sha256sum -c`, with `name`.
Result<std::string> write_tensors(Export& job, const PathAt& path, const std::string& name,
                                  ExportFile& file) {
  STOKER_ASSIGN(SummedFile out, SummedFile::create(job.ops, path));
  STOKER_ASSIGN(const std::string header,
                format_safetensors(file.entries, {{"format", "pt"}}, kDataAlignBytes));
  STOKER_TRY(out.append(std::as_bytes(std::span(header))));
  std::vector<std::byte> piece;
  for (const TensorInfo* tensor : file.tensors) {
    const auto append_box = [&](const TensorBox& box) -> Status {
      piece.resize(box.size_bytes);
      STOKER_TRY(job.reader.read(
          {.name = tensor->name, .offsets = box.offsets, .shape = box.shape, .memory = piece}));
      STOKER_TRY(out.append(piece));
      job.done_bytes += box.size_bytes;
      if (job.options.progress) job.options.progress(job.done_bytes, job.total_bytes);
      return {};
    };
    STOKER_TRY(for_each_box(tensor->type, tensor->shape, job.options.piece_bytes, append_box));
  }
  job.report.size_bytes += out.size_bytes();
  job.report.tensor_count += file.tensors.size();
  job.report.files.push_back(name);
  return std::move(out).finish(name);
}

/// Rejects a name with a backslash or line break, which `sha256sum -c` would read differently.
Status check_sums_name(std::string_view name) {
  if (name.find_first_of("\\\n\r") == std::string_view::npos) return {};
  return Status(Code::invalid_argument,
                "the name of an export must not contain a backslash or line break");
}

Status fill_directory(Export& job, const PathAt& directory) {
  FileOps& ops = job.ops;
  const std::vector<NamedTensor> named = name_tensors(job.reader, job.options.rank);
  STOKER_ASSIGN(std::vector<ExportFile> files,
                plan_export(named, job.options, /*is_split=*/!job.options.adapter));
  job.report.same = same_tensors(named, job.options);
  job.count(files);
  STOKER_TRY(ops.mkdir(directory));
  std::string sums;
  for (ExportFile& file : files) {
    STOKER_ASSIGN(const std::string line,
                  write_tensors(job, directory / file.name, file.name, file));
    sums += line;
  }
  const auto add_text = [&](std::string_view name, std::string_view text) -> Status {
    STOKER_ASSIGN(SummedFile file, SummedFile::create(ops, directory / name));
    STOKER_TRY(file.append(std::as_bytes(std::span(text))));
    STOKER_ASSIGN(const std::string line, std::move(file).finish(name));
    sums += line;
    return {};
  };
  if (files.size() > 1)
    STOKER_TRY(add_text("model.safetensors.index.json", format_export_index(files)));
  for (const TextFile& file : job.options.files) STOKER_TRY(add_text(file.name, file.text));
  job.report.sums = "SHA256SUMS";
  return create_durable_file(ops, directory / job.report.sums, sums, /*is_final=*/false);
}

/// Opens the parent directory of an export. Links in its path are followed, links in it are not.
Result<PathAt> place_of(FileOps& ops, const PathAt& path) {
  STOKER_ASSIGN(std::shared_ptr<const RootDirectory> root, open_root(ops, path.parent()));
  return PathAt(std::move(root), path.last());
}

}  // namespace

// 1. Write and fsync the file under a private name.  2. Rename it without replacing.  3. fsync the
// parent.  4. Publish the sums, last, so that they never exist without their file.
Result<ExportReport> export_safetensors(const CheckpointReader& reader, FileOps& ops,
                                        const std::string& path, const ExportOptions& options) {
  Export job{.reader = reader, .ops = ops, .options = options};
  ExportReport& report = job.report;
  const std::string name = path.substr(path.rfind('/') + 1);
  STOKER_TRY(check_sums_name(name));
  for (const std::string& taken : {path, path + ".sha256"})
    if (ops.kind_of(taken).ok())
      return Status(Code::already_exists,
                    taken +
                        ": already exists, and an export does not replace files; remove it, or "
                        "choose another name");
  const std::vector<NamedTensor> named = name_tensors(reader, options.rank);
  STOKER_ASSIGN(std::vector<ExportFile> files, plan_export(named, options, /*is_split=*/false));
  report.same = same_tensors(named, options);
  job.count(files);
  STOKER_ASSIGN(const PathAt place, place_of(ops, path));
  const PathAt staged = place.parent() / (name + ".staged-" + make_token());
  const PathAt sums = place.parent() / (name + ".sha256");
  report.sums = path + ".sha256";
  const Result<std::string> line = write_tensors(job, staged, name, files.front());
  Status status = line.status();
  if (status.ok()) ops.reached("export.synced");
  if (status.ok()) {
    status = ops.rename_noreplace(staged, place);
    if (status.code() == Code::unsupported) status = ops.link(staged, place);
  }
  static_cast<void>(ops.unlink(staged));  // left by a failure, or by link()
  STOKER_TRY(status);
  ops.reached("export.switched");
  status = ops.fsync_dir(place.parent());
  if (status.ok()) ops.reached("export.durable");
  if (status.ok())
    status = publish_file(ops, sums, std::as_bytes(std::span(*line)), IfExists::fail);
  if (!status.ok()) {  // neither file was reported yet
    if (status.code() != Code::already_exists) static_cast<void>(ops.unlink(sums));
    static_cast<void>(ops.unlink(place));
    return status;
  }
  report.files = {path};
  return report;
}

Result<ExportReport> export_directory(const CheckpointReader& reader, FileOps& ops,
                                      const std::string& directory, const ExportOptions& options) {
  std::string path = directory;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  if (ops.kind_of(path).ok())
    return Status(Code::already_exists, path +
                                            ": already exists, and an export does not replace "
                                            "directories; remove it, or choose another name");
  STOKER_ASSIGN(const PathAt place, place_of(ops, path));
  const PathAt staged = place.parent() / (std::string(place.last()) + ".staged-" + make_token());
  Export job{.reader = reader, .ops = ops, .options = options};
  Status status = fill_directory(job, staged);
  if (status.ok()) status = publish_directory(ops, staged, place);
  if (!status.ok()) {
    static_cast<void>(remove_tree(ops, staged));
    return status;
  }
  for (std::string& file : job.report.files) file = path + "/" + file;
  job.report.sums = path + "/" + job.report.sums;
  return job.report;
}

}  // namespace stoker
