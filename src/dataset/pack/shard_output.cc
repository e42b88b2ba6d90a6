#include "dataset/pack/shard_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

namespace stoker {
namespace {

constexpr std::string_view kStagedMark = ".staged-";

PathAt staged_name(const PathAt& path) {
  static std::atomic<std::uint64_t> serial{0};  // relaxed: only uniqueness matters
  return path.parent() /
         (std::string(path.last()) + std::string(kStagedMark) + std::to_string(::getpid()) + "-" +
          std::to_string(serial.fetch_add(1, std::memory_order_relaxed)));
}

}  // namespace

Status RecordChecksums::add(ByteRange record) {
  const std::uint64_t last_end = records_.empty() ? 0 : records_.back().end_bytes();
  const bool is_whole =
      record.offset_bytes >= position_bytes_ ||
      (record.offset_bytes == tail_begin_bytes_ && checksums_.size() == records_.size());
  if (record.offset_bytes < last_end || !is_whole)
    return Status(Code::invalid_argument, "the record at byte " +
                                              std::to_string(record.offset_bytes) +
                                              " is not after the previous one");
  if (record.end_bytes() < position_bytes_)
    return Status(Code::invalid_argument, "the writer has written past the record at byte " +
                                              std::to_string(record.offset_bytes));
  if (checksums_.size() == records_.size() && record.offset_bytes != tail_begin_bytes_)
    crc_.reset();  // the bytes before it belong to no record
  records_.push_back(record);
  update({});  // the record may be complete already
  return {};
}

void RecordChecksums::update(std::span<const std::byte> bytes) {
  for (;;) {
    const bool is_open =
        checksums_.size() == records_.size();  // not known yet which record they belong to
    const ByteRange current = is_open ? ByteRange{} : records_[checksums_.size()];
    // Bytes before a record whose place is known belong to no record.
    const bool is_before = !is_open && position_bytes_ < current.offset_bytes;
    std::uint64_t size = bytes.size();
    if (is_before) size = std::min(size, current.offset_bytes - position_bytes_);
    if (!is_open && !is_before) size = std::min(size, current.end_bytes() - position_bytes_);
    if (!is_before) crc_.update(bytes.first(size));
    position_bytes_ += size;
    bytes = bytes.subspan(size);
    if (is_before && position_bytes_ == current.offset_bytes) {
      crc_.reset();
      tail_begin_bytes_ = position_bytes_;
      if (current.size_bytes != 0 && bytes.empty()) return;
      continue;
    }
    if (!is_open && !is_before && position_bytes_ == current.end_bytes()) {
      checksums_.push_back(crc_.digest());
      crc_.reset();
      tail_begin_bytes_ = position_bytes_;
      continue;
    }
    return;
  }
}

Result<std::vector<std::uint32_t>> RecordChecksums::finish() const {
  if (checksums_.size() != records_.size())
    return Status(Code::invalid_argument, "the shard ended before its last record did");
  return checksums_;
}

ShardOutput::ShardOutput(FileOps& ops, PathAt path, PathAt staged, UniqueFd fd)
    : ops_(ops), path_(std::move(path)), staged_(std::move(staged)), file_(ops, std::move(fd)) {}

Result<std::unique_ptr<ShardOutput>> ShardOutput::make(FileOps& ops, const PathAt& path) {
  // The name may exist already: from a process with the same PID, or created on purpose.
  constexpr int kAttemptsMax = 100;
  PathAt staged = staged_name(path);
  Result<UniqueFd> fd = ops.open(staged, O_WRONLY | O_CREAT | O_EXCL);
  for (int i = 1; i < kAttemptsMax && fd.status().code() == Code::already_exists; ++i) {
    staged = staged_name(path);
    fd = ops.open(staged, O_WRONLY | O_CREAT | O_EXCL);
  }
  if (!fd.ok()) return fd.status();
  return std::unique_ptr<ShardOutput>(
      new ShardOutput(ops, path, std::move(staged), *std::move(fd)));
}

ShardOutput::~ShardOutput() {
  if (is_staged_) static_cast<void>(ops_.unlink(staged_));  // best effort: the file is never read
}

Status ShardOutput::write(std::span<const std::byte> bytes) {
  sha256_.update(bytes);
  checksums_.update(bytes);
  Status status = file_.append(bytes);
  return status.ok() ? status : status.with_context("write " + path_.text());
}

Status ShardOutput::sync() {
  const std::string context = "write " + path_.text();
  Result<UniqueFd> fd = file_.finish();
  if (!fd.ok()) return fd.status().with_context(context);
  ops_.reached("shard_output.staged");
  STOKER_ASSIGN(digest_, sha256_.digest());
  STOKER_TRY(ops_.fsync(fd->get()).with_context(context));
  STOKER_TRY(ops_.close(*std::move(fd)).with_context(context));
  ops_.reached("shard_output.synced");
  return {};
}

Status ShardOutput::rename_to_final() {
  Status status = ops_.rename_noreplace(staged_, path_);
  if (status.ok()) is_staged_ = false;
  if (status.code() != Code::unsupported) return status;
  // If the flag is not supported (NFS), a hard link does not replace a file either. The destructor
  // removes the staging name.
  return ops_.link(staged_, path_);
}

Status ShardOutput::publish() {
  STOKER_TRY(rename_to_final().with_context("publish " + path_.text()));
  ops_.reached("shard_output.switched");
  if (Status status = ops_.fsync_dir(path_.parent()); !status.ok()) {
    // The name may not be durable; a retry must not find it.
    static_cast<void>(ops_.unlink(path_));
    return status.with_context("publish " + path_.text());
  }
  ops_.reached("shard_output.durable");
  return {};
}

std::string_view final_name_of_staged(std::string_view name) {
  const std::size_t mark = name.rfind(kStagedMark);
  return mark == std::string_view::npos ? std::string_view() : name.substr(0, mark);
}

}  // namespace stoker
