#include "api/saved_trees.h"

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "api/tree_access.h"
#include "api/tree_json.h"
#include "checkpoint/manifest/names.h"
#include "checkpoint/restore/tensor_names.h"

namespace stoker::internal {
namespace {

void find_tensors(const CheckpointReader& reader, std::uint32_t rank, Tree& tree) {
  if (TensorView* const view = tree.tensor()) {
    const TensorInfo* const stored = find_in_tree(reader, rank, view->name);
    if (stored == nullptr) return;
    view->name = stored->name;
    view->type = stored->type;
    view->shape = stored->shape;
  }
  for (Tree& item : tree.items()) find_tensors(reader, rank, item);
  for (Tree::Field& field : tree.fields()) find_tensors(reader, rank, field.value);
}

/// Whether two values are exactly equal: 1 is not 1.0, and 0.0 is not -0.0. Tensors are if they are
/// the same stored one.
bool is_same(const Tree& a, const Tree& b) {
  if (&a == &b) return true;
  if (a.kind() != b.kind() || TreeAccess::tags(a) != TreeAccess::tags(b)) return false;
  switch (a.kind()) {
    case Tree::Kind::null: return true;
    case Tree::Kind::boolean: return a.boolean() == b.boolean();
    case Tree::Kind::integer: return a.int64() == b.int64() && a.uint64() == b.uint64();
    case Tree::Kind::real:
      return std::bit_cast<std::uint64_t>(*a.real()) == std::bit_cast<std::uint64_t>(*b.real());
    case Tree::Kind::text: return *a.text() == *b.text();
    case Tree::Kind::bytes: return *a.bytes() == *b.bytes();
    case Tree::Kind::tensor:
      return a.tensor()->name == b.tensor()->name && a.tensor()->element == b.tensor()->element &&
             a.tensor()->is_torch == b.tensor()->is_torch;
    case Tree::Kind::list: return std::ranges::equal(a.items(), b.items(), is_same);
    case Tree::Kind::map:
      return std::ranges::equal(a.fields(), b.fields(),
                                [](const Tree::Field& one, const Tree::Field& other) {
                                  return one.name == other.name && is_same(one.value, other.value);
                                });
  }
  return false;
}

/// The value of each rank that has one, by rank.
using Held = std::map<std::uint32_t, const Tree*>;

/// Thread safety: none.
class Merge {
 public:
  Merge(const CheckpointReader& reader, std::optional<std::uint32_t> own)
      : reader_(reader), own_(own) {}

  Result<Tree> merge(const Held& held) const {
    const Tree& first = *held.begin()->second;
    if (all_of(held, [&](const Tree& one) { return is_same(one, first); })) return first;
    if (!all_of(held, [&](const Tree& one) {
          return one.kind() == first.kind() && TreeAccess::tags(one) == TreeAccess::tags(first);
        }))
      return other(held);
    if (first.tensor() != nullptr) return merge_tensors(held);
    if (first.kind() == Tree::Kind::list) return merge_lists(held);
    if (first.kind() != Tree::Kind::map) return other(held);
    const bool has_names = all_of(held, [&](const Tree& one) {
      return std::ranges::equal(one.fields(), first.fields(), {}, &Tree::Field::name,
                                &Tree::Field::name);
    });
    return has_names || first.tag() == "!ordered_dict" ? merge_maps(held) : other(held);
  }

 private:
  static bool all_of(const Held& held, const auto& is) {
    return std::ranges::all_of(held, [&](const auto& one) { return is(*one.second); });
  }

  /// The value of this rank, if it has saved one.
  Tree other(const Held& held) const {
    if (own_ && held.contains(*own_)) return *held.at(*own_);
    Tree differs;
    TreeAccess::set_tags(differs, {std::string(kDiffersTag)});
    return differs;
  }

  /// Copies of one tensor, of which any represents all.
  Result<Tree> merge_tensors(const Held& held) const {
    if (own_ && held.contains(*own_)) return *held.at(*own_);
    const Tree& first = *held.begin()->second;
    if (first.tag() == kSliceTag) return other(held);
    std::set<std::pair<std::uint64_t, std::uint64_t>> digests;
    for (const auto& [rank, tree] : held) {
      const TensorView& view = *tree->tensor();
      const TensorInfo* const stored = reader_.find(view.name);
      if (stored == nullptr || view.type != first.tensor()->type ||
          view.shape != first.tensor()->shape || view.element != first.tensor()->element)
        return other(held);
      STOKER_ASSIGN(const Digest128 digest, reader_.digest_of(*stored));
      digests.emplace(digest.high, digest.low);
    }
    return digests.size() == 1 ? first : other(held);
  }

  Result<Tree> merge_lists(const Held& held) const {
    const Tree& first = *held.begin()->second;
    if (!all_of(held, [&](const Tree& one) { return one.size() == first.size(); }))
      return other(held);
    Tree::List items;
    for (std::size_t i = 0; i < first.size(); ++i) {
      Held at;
      for (const auto& [rank, tree] : held) at[rank] = &tree->items()[i];
      STOKER_ASSIGN(Tree item, merge(at));
      items.push_back(std::move(item));
    }
    Tree made = Tree::list(std::move(items));
    TreeAccess::set_tags(made, TreeAccess::tags(first));
    return made;
  }

  Result<Tree> merge_maps(const Held& held) const {
    std::vector<std::string> names;  // in their order
    std::map<std::string, Held> at;
    for (const auto& [rank, tree] : held)
      for (const Tree::Field& field : tree->fields()) {
        Held& place = at[field.name];
        if (place.empty()) names.push_back(field.name);
        place[rank] = &field.value;
      }
    Tree made = Tree::map();
    for (std::string& name : names) {
      STOKER_ASSIGN(Tree value, merge(at[name]));
      TreeAccess::add(made, std::move(name), std::move(value));
    }
    TreeAccess::set_tags(made, TreeAccess::tags(*held.begin()->second));
    return made;
  }

  const CheckpointReader& reader_;
  const std::optional<std::uint32_t> own_;
};

std::string manifest_of(const CheckpointReader& reader) {
  return reader.directory() + "/manifest.json: state";
}

}  // namespace

Result<Tree> trees_of_rank(const CheckpointReader& reader, std::uint32_t rank) {
  const std::vector<std::string>& texts = reader.manifest().state_json;
  if (rank >= texts.size()) return Tree::map();
  STOKER_ASSIGN(Tree trees, read_tree(texts[rank], manifest_of(reader)));
  if (trees.is_null()) return Tree::map();
  if (trees.kind() != Tree::Kind::map || !trees.tag().empty())
    return Status(Code::corrupt, manifest_of(reader) + ": not trees by name");
  find_tensors(reader, rank, trees);
  return trees;
}

Result<Tree> saved_trees(const CheckpointReader& reader, std::uint32_t rank,
                         std::uint32_t world_size) {
  const std::size_t count = reader.manifest().state_json.size();
  const bool is_own = count == world_size;
  if (count == 0) return Tree::map();
  // Equal texts are the same trees, unless a rank has tensors of its own of the same names.
  const bool has_own = std::ranges::any_of(reader.tensors(), [](const TensorInfo& tensor) {
    return !rank_prefix_of(tensor.name).empty();
  });
  std::map<std::pair<std::string_view, std::uint32_t>, std::shared_ptr<const Tree>> known;
  std::vector<std::shared_ptr<const Tree>> ranks;
  for (std::uint32_t one = 0; one < count; ++one) {
    auto& trees = known[{reader.manifest().state_json[one], has_own ? one : 0}];
    if (trees == nullptr) {
      STOKER_ASSIGN(Tree made, trees_of_rank(reader, one));
      trees = std::make_shared<const Tree>(std::move(made));
    }
    ranks.push_back(trees);
  }
  const Merge merge(reader, is_own ? std::optional(rank) : std::nullopt);
  Tree made = Tree::map();
  std::set<std::string_view> done;
  for (const auto& tree : ranks)
    for (const Tree::Field& field : tree->fields()) {
      if (!done.insert(field.name).second) continue;
      Held at;
      for (std::uint32_t one = 0; one < count; ++one)
        if (const Tree* const value = ranks[one]->find(field.name)) at[one] = value;
      Tree value;
      if (at.size() == count || (is_own && at.contains(rank))) {
        STOKER_ASSIGN(value, merge.merge(at));
      } else {
        TreeAccess::set_tags(value, {std::string(kDiffersTag)});
      }
      TreeAccess::add(made, field.name, std::move(value));
    }
  return made;
}

}  // namespace stoker::internal
