#include "support/model_names.h"

#include <algorithm>
#include <utility>

namespace stoker::testing {
namespace {

void perform(std::map<InodeId, NameTable>& tables, const NameOp& op) {
  for (const NameChange& change : op.changes) {
    NameTable& table = tables[change.directory];
    if (change.after == kNoInode) {
      table.erase(change.name);
    } else {
      table[change.name] = change.after;
    }
  }
}

}  // namespace

void ModelNames::add_directory(InodeId directory) {
  add_directory(directory, {});
}

void ModelNames::add_directory(InodeId directory, NameTable names) {
  durable_[directory] = names;
  live_[directory] = std::move(names);
}

InodeId ModelNames::find(InodeId directory, const std::string& name) const {
  const NameTable& table = live_.at(directory);
  const auto found = table.find(name);
  return found == table.end() ? kNoInode : found->second;
}

bool ModelNames::needs(const NameOp& later, const NameOp& earlier) const {
  if (later.directory != kNoInode && later.directory == earlier.directory) return true;
  return std::ranges::any_of(earlier.changes, [&](const NameChange& change) {
    if (later.emptied != kNoInode && change.directory == later.emptied) return true;
    return std::ranges::any_of(later.changes, [&](const NameChange& mine) {
      return mine.directory == change.directory && mine.name == change.name;
    });
  });
}

std::size_t ModelNames::count(InodeId inode) const {
  std::size_t count = 0;
  for (const auto& [directory, names] : live_)
    count += static_cast<std::size_t>(
        std::ranges::count_if(names, [&](const auto& name) { return name.second == inode; }));
  return count;
}

void ModelNames::apply(NameOp op) {
  for (const NameChange& change : op.changes) op.unsynced.insert(change.directory);
  for (const auto& [serial, earlier] : pending_)
    if (needs(op, earlier)) op.needs.insert(serial);
  perform(live_, op);
  pending_.emplace(++serial_, std::move(op));
}

void ModelNames::sync(InodeId directory) {
  std::set<std::uint64_t> durable;
  for (auto& [serial, op] : pending_) {
    op.unsynced.erase(directory);
    if (op.unsynced.empty()) durable.merge(with_needs(serial));
  }
  for (const std::uint64_t serial : durable) {
    perform(durable_, pending_.at(serial));
    pending_.erase(serial);
  }
}

std::set<std::uint64_t> ModelNames::with_needs(std::uint64_t serial) const {
  std::set<std::uint64_t> all = {serial};
  std::vector<std::uint64_t> open = {serial};
  while (!open.empty()) {
    const NameOp& op = pending_.at(open.back());
    open.pop_back();
    for (const std::uint64_t needed : op.needs)
      if (pending_.contains(needed) && all.insert(needed).second) open.push_back(needed);
  }
  return all;
}

std::map<InodeId, NameTable> ModelNames::after_cut(const std::set<std::uint64_t>& kept) const {
  std::map<InodeId, NameTable> tables = durable_;
  std::set<std::uint64_t> lost;
  for (const auto& [serial, op] : pending_) {
    const bool is_lost =
        !kept.contains(serial) ||
        std::ranges::any_of(op.needs, [&](std::uint64_t needed) { return lost.contains(needed); });
    if (is_lost) {
      lost.insert(serial);
    } else {
      perform(tables, op);
    }
  }
  return tables;
}

}  // namespace stoker::testing
