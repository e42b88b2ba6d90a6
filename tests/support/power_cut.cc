#include "support/power_cut.h"

#include <algorithm>
#include <random>
#include <set>

namespace stoker::testing {
namespace {

/// Something that may be lost by itself. Choice 0 is the durable version.
struct Item {
  enum class Kind : std::uint8_t { block, size, names };
  Kind kind;
  InodeId inode = kNoInode;
  std::uint64_t number = 0;  // of the block, or of the call that changed names
  std::uint32_t choice_count = 2;
  std::uint32_t newest = 1;
};

using Choices = std::vector<std::uint32_t>;

/// Inodes that some state may still reach: what is unlinked for good is of no interest.
std::set<InodeId> reachable(const ModelState& state) {
  std::map<InodeId, std::set<InodeId>> children;
  for (const auto& [directory, table] : state.names().after_cut({}))
    for (const auto& [name, child] : table) children[directory].insert(child);
  for (const auto& [serial, op] : state.names().pending())
    for (const NameChange& change : op.changes)
      if (change.after != kNoInode) children[change.directory].insert(change.after);
  std::set<InodeId> found = {ModelState::kRoot};
  std::vector<InodeId> open = {ModelState::kRoot};
  while (!open.empty()) {
    const InodeId id = open.back();
    open.pop_back();
    for (const InodeId child : children[id])
      if (found.insert(child).second) open.push_back(child);
  }
  return found;
}

std::vector<Item> items_of(const ModelState& state) {
  std::vector<Item> items;
  for (const auto& [serial, op] : state.names().pending())
    items.push_back({.kind = Item::Kind::names, .number = serial});
  for (const InodeId id : reachable(state)) {
    const ModelFile& file = state.at(id).file;
    const auto size_count = static_cast<std::uint32_t>(file.sizes().size());
    if (size_count > 0)
      items.push_back({.kind = Item::Kind::size,
                       .inode = id,
                       .choice_count = size_count + 1,
                       .newest = size_count});
    for (const auto& [block, versions] : file.dirty_blocks()) {
      const auto count = static_cast<std::uint32_t>(versions.size());
      items.push_back({.kind = Item::Kind::block,
                       .inode = id,
                       .number = block,
                       .choice_count = count + 2,  // the last one is torn
                       .newest = count});
    }
  }
  return items;
}

ModelState settle(const ModelState& state, const std::vector<Item>& items, const Choices& choices) {
  std::set<std::uint64_t> kept;
  std::map<InodeId, FileImage> images;
  const auto image_of = [&](InodeId id) -> FileImage& {
    return images.try_emplace(id, state.at(id).file.durable()).first->second;
  };
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Item& item = items[i];
    switch (item.kind) {
      case Item::Kind::names:
        if (choices[i] != 0) kept.insert(item.number);
        break;
      case Item::Kind::size:
        if (choices[i] != 0)
          image_of(item.inode).size_bytes = state.at(item.inode).file.sizes()[choices[i] - 1];
        break;
      case Item::Kind::block:
        image_of(item.inode).blocks[item.number] =
            state.at(item.inode).file.version_of(item.number, choices[i]);
        break;
    }
  }
  std::map<InodeId, ModelInode> inodes;
  for (const auto& [id, inode] : state.inodes()) {
    ModelInode settled{.kind = inode.kind, .mode = inode.mode, .target = inode.target};
    const auto image = images.find(id);
    FileImage bytes = image == images.end() ? inode.file.durable() : image->second;
    if (image != images.end()) bytes.trim();
    settled.file = ModelFile(std::move(bytes));
    inodes.emplace(id, std::move(settled));
  }
  return {state.names().after_cut(kept), inodes};
}

std::string describe(const ModelState& state, const std::vector<Item>& items,
                     const Choices& choices) {
  std::string text;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Item& item = items[i];
    if (choices[i] == item.newest) continue;
    if (!text.empty()) text += ", ";
    if (item.kind == Item::Kind::names) {
      text += "names";
      for (const NameChange& change : state.names().pending().at(item.number).changes)
        text += " " + std::string(change.after == kNoInode ? "-" : "+") + change.name;
      continue;
    }
    const std::string inode = std::to_string(item.inode);
    text += item.kind == Item::Kind::size
                ? "size of inode " + inode
                : "block " + std::to_string(item.number) + " of inode " + inode;
    if (choices[i] != 0) text += choices[i] > item.newest ? " torn" : " an older version";
  }
  return text.empty() ? "nothing" : text;
}

/// Every combination, by counting; empty if they are more than `count_max`.
std::vector<Choices> all_choices(const std::vector<Item>& items, std::size_t count_max) {
  std::size_t product = 1;
  for (const Item& item : items) {
    product *= item.choice_count;
    if (product > count_max) return {};
  }
  std::vector<Choices> all;
  Choices now(items.size(), 0);
  for (std::size_t n = 0; n < product; ++n) {
    all.push_back(now);
    for (std::size_t i = 0; i < items.size() && ++now[i] == items[i].choice_count; ++i) now[i] = 0;
  }
  return all;
}

/// Alone kept: with the calls that it needs.
Choices only(const ModelState& state, const std::vector<Item>& items, std::size_t one) {
  Choices choices(items.size(), 0);
  choices[one] = items[one].newest;
  if (items[one].kind != Item::Kind::names) return choices;
  const std::set<std::uint64_t> needed = state.names().with_needs(items[one].number);
  for (std::size_t i = 0; i < items.size(); ++i)
    if (items[i].kind == Item::Kind::names && needed.contains(items[i].number)) choices[i] = 1;
  return choices;
}

std::vector<Choices> some_choices(const ModelState& state, const std::vector<Item>& items,
                                  const CutOptions& options) {
  Choices newest;
  for (const Item& item : items) newest.push_back(item.newest);
  std::vector<Choices> some = {newest, Choices(items.size(), 0)};
  std::mt19937_64 random(options.seed);
  std::vector<std::size_t> singles(items.size());
  for (std::size_t i = 0; i < singles.size(); ++i) singles[i] = i;
  for (std::size_t i = singles.size(); i > 1; --i) std::swap(singles[i - 1], singles[random() % i]);
  singles.resize(std::min(singles.size(), options.single_max));
  for (const std::size_t one : singles) {
    some.push_back(newest);
    some.back()[one] = 0;
    some.push_back(only(state, items, one));
  }
  for (std::size_t n = 0; n < options.random_count; ++n) {
    // Half of it lost, a little lost, nearly all lost: each finds other mistakes.
    const std::uint64_t kept_of_8 = std::uint64_t{4} + (n % 3 == 1 ? 3 : 0) - (n % 3 == 2 ? 3 : 0);
    Choices choices;
    for (const Item& item : items) {
      const bool is_any = random() % 4 == 0;
      const std::uint64_t draw = random();
      choices.push_back(is_any ? static_cast<std::uint32_t>(draw % item.choice_count)
                               : (draw % 8 < kept_of_8 ? item.newest : 0));
    }
    some.push_back(std::move(choices));
  }
  return some;
}

}  // namespace

std::vector<CutState> states_after_cut(const ModelState& state, const CutOptions& options) {
  const std::vector<Item> items = items_of(state);
  std::vector<Choices> all = all_choices(items, options.exhaustive_max);
  if (all.empty()) all = some_choices(state, items, options);
  std::vector<CutState> states;
  std::set<std::pair<std::uint64_t, std::uint64_t>> seen;
  for (const Choices& choices : all) {
    ModelState settled = settle(state, items, choices);
    const Digest128 digest = settled.fingerprint();
    if (!seen.emplace(digest.low, digest.high).second) continue;
    states.push_back({std::move(settled), digest, describe(state, items, choices)});
  }
  return states;
}

}  // namespace stoker::testing
