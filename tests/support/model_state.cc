#include "support/model_state.h"

#include <algorithm>
#include <cerrno>
#include <deque>

namespace stoker::testing {
namespace {

constexpr int kLinksMax = 40;  // as in Linux

std::deque<std::string> parts_of(const std::string& path) {
  std::deque<std::string> parts;
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    if (!part.empty() && part != ".") parts.push_back(part);
    begin = end + 1;
  }
  return parts;
}

void update(Xxh3Stream& hash, std::string_view text) {
  const std::uint64_t size = text.size();
  hash.update(std::as_bytes(std::span(&size, 1)));
  hash.update(std::as_bytes(std::span(text)));
}

}  // namespace

ModelState::ModelState() {
  inodes_[kRoot] = {.kind = FileKind::directory, .mode = 0755};
  names_.add_directory(kRoot);
}

ModelState::ModelState(const std::map<InodeId, NameTable>& tables,
                       const std::map<InodeId, ModelInode>& inodes) {
  std::vector<InodeId> open = {kRoot};
  while (!open.empty()) {
    const InodeId id = open.back();
    open.pop_back();
    if (!inodes_.emplace(id, inodes.at(id)).second) continue;  // a second hard link
    last_ = std::max(last_, id);
    if (inodes.at(id).kind != FileKind::directory) continue;
    const auto table = tables.find(id);
    names_.add_directory(id, table == tables.end() ? NameTable() : table->second);
    for (const auto& [name, child] : names_.live(id)) open.push_back(child);
  }
}

Result<ModelPlace> ModelState::resolve(const std::string& path, bool follow_last) const {
  const auto failed = [&](int error) { return Status::from_errno(error, "resolve", path); };
  std::deque<std::string> rest = parts_of(path);
  std::vector<InodeId> trail = {kRoot};  // of directories, for ".."
  ModelPlace place{.inode = kRoot};
  for (int links = 0; !rest.empty();) {
    const std::string name = rest.front();
    rest.pop_front();
    if (place.inode == kNoInode) return failed(ENOENT);
    if (at(place.inode).kind != FileKind::directory) return failed(ENOTDIR);
    if (name == "..") {
      if (trail.size() > 1) trail.pop_back();
      place = {.inode = trail.back()};
      continue;
    }
    place = {.directory = trail.back(), .name = name, .inode = names_.find(trail.back(), name)};
    if (place.inode == kNoInode) continue;
    const ModelInode& found = at(place.inode);
    if (found.kind == FileKind::symlink && (follow_last || !rest.empty())) {
      if (++links > kLinksMax) return failed(ELOOP);
      if (found.target.starts_with('/')) trail = {kRoot};
      place = {.inode = trail.back()};
      const std::deque<std::string> target = parts_of(found.target);
      rest.insert(rest.begin(), target.begin(), target.end());
    } else if (found.kind == FileKind::directory) {
      trail.push_back(place.inode);
    }
  }
  return place;
}

InodeId ModelState::add_inode(ModelInode inode) {
  const InodeId id = ++last_;
  if (inode.kind == FileKind::directory) names_.add_directory(id);
  inodes_.emplace(id, std::move(inode));
  return id;
}

bool ModelState::is_below(InodeId inner, InodeId outer) const {
  if (inner == outer) return true;
  if (at(outer).kind != FileKind::directory) return false;
  return std::ranges::any_of(names_.live(outer),
                             [&](const auto& entry) { return is_below(inner, entry.second); });
}

Digest128 ModelState::fingerprint() const {
  Xxh3Stream hash;
  const auto walk = [&](const auto& self, InodeId id) -> void {
    const ModelInode& inode = at(id);
    hash.update(std::as_bytes(std::span(&inode.kind, 1)));
    update(hash, inode.target);
    if (inode.kind == FileKind::regular) {
      const FileImage image = inode.file.live();
      hash.update(std::as_bytes(std::span(&image.size_bytes, 1)));
      hash.update(image.bytes());
    }
    if (inode.kind != FileKind::directory) return;
    for (const auto& [name, child] : names_.live(id)) {
      update(hash, name);
      self(self, child);
    }
    update(hash, "/");
  };
  walk(walk, kRoot);
  return hash.digest();
}

}  // namespace stoker::testing
