#include "checkpoint/directory/meeting_sweep.h"

#include <array>
#include <span>
#include <utility>
#include <vector>

#include "base/token.h"

namespace stoker {
namespace {

constexpr int kLooksMin = 8;

/// A digest that is equal while nothing in the directory has changed.
Result<Digest128> contents_of(FileOps& ops, const PathAt& path) {
  STOKER_ASSIGN(const std::vector<DirectoryName> names, ops.list_names(path));
  Xxh3Stream hash;
  for (const DirectoryName& name : names) {
    const Result<FileInfo> file = ops.info_of(path / name.name);
    const std::array<std::uint64_t, 3> numbers = {
        name.inode, file.ok() ? file->size_bytes : 0,
        file.ok() ? static_cast<std::uint64_t>(file->modified_ns) : 0};
    hash.update(std::as_bytes(std::span(name.name)));
    hash.update(std::as_bytes(std::span(numbers)));
  }
  return hash.digest();
}

}  // namespace

void MeetingSweep::look(Deadline now) {
  const CheckpointDirectory& directory = owner_.directory();
  FileOps& ops = directory.ops();
  const Result<std::vector<DirectoryName>> names = ops.list_names(directory.self());
  if (!names.ok()) return;
  std::map<std::string, Seen> seen;
  for (const DirectoryName& name : *names) {
    if (!is_meeting_name(name.name) || name.kind != FileKind::directory) continue;
    const Result<Digest128> contents = contents_of(ops, directory.at(name.name));
    if (!contents.ok()) continue;
    const auto before = seen_.find(name.name);
    Seen look = before == seen_.end() ? Seen() : before->second;
    if (look.looks == 0 || look.contents != *contents) look = {*contents, now, 0};
    ++look.looks;
    if (look.looks < kLooksMin || now - look.since < ttl_) {
      seen.emplace(name.name, look);
      continue;
    }
    const std::string condemned = remove_name(make_token());
    if (ops.rename(directory.at(name.name), owner_.at(condemned)).ok())
      static_cast<void>(owner_.remove(condemned));
  }
  seen_ = std::move(seen);
}

}  // namespace stoker
