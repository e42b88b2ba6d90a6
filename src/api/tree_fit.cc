#include "api/tree_fit.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <new>
#include <string_view>
#include <utility>

#include "api/saved_trees.h"
#include "api/tree_access.h"
#include "api/tree_json.h"
#include "api/tree_tensors.h"

namespace stoker::internal {
namespace {

constexpr std::size_t kToldMax = 10;

std::string_view kind_name(const Tree& tree) {
  switch (tree.kind()) {
    case Tree::Kind::null: return "null";
    case Tree::Kind::boolean: return "a boolean";
    case Tree::Kind::integer: return "an integer";
    case Tree::Kind::real: return "a number";
    case Tree::Kind::text: return "a text";
    case Tree::Kind::bytes: return "bytes";
    case Tree::Kind::tensor: return "a tensor";
    case Tree::Kind::list: return "a list";
    case Tree::Kind::map: return "a map";
  }
  return "";
}

bool holds_tensor(const Tree& tree) {
  return tree.tensor() != nullptr || std::ranges::any_of(tree.items(), holds_tensor) ||
         std::ranges::any_of(tree.fields(), holds_tensor, &Tree::Field::value);
}

/// Memory that begins at a multiple of what the widest vectors need.
std::shared_ptr<void> allocate(std::size_t size_bytes) {
  constexpr std::align_val_t kAlign{64};
  return {::operator new(std::max<std::size_t>(size_bytes, 1), kAlign),
          [](void* memory) { ::operator delete(memory, kAlign); }};
}

bool is_empty(const TensorView& view) {
  return std::ranges::find(view.shape, 0U) != view.shape.end();
}

/// Copies elements without gaps to those of a view in host memory.
void scatter(const std::byte* from, const TensorView& into) {
  const std::size_t element = tensor_type_bits(into.type) / 8;
  std::byte* const first = into.memory.data() + into.first_bytes;
  if (into.strides_bytes.empty()) {
    const std::uint64_t size_bytes =
        tensor_bytes(into.type, into.shape).ok() ? *tensor_bytes(into.type, into.shape) : 0;
    if (size_bytes > 0) std::memcpy(first, from, static_cast<std::size_t>(size_bytes));
    return;
  }
  std::vector<std::uint64_t> at(into.shape.size());
  for (;;) {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < at.size(); ++i)
      offset += static_cast<std::int64_t>(at[i]) * into.strides_bytes[i];
    std::memcpy(first + offset, from, element);
    from += element;
    std::size_t dimension = at.size();
    while (dimension > 0 && ++at[dimension - 1] == into.shape[dimension - 1]) at[--dimension] = 0;
    if (dimension == 0) return;
  }
}

}  // namespace

Tree TreeFit::fit(const Tree& saved, const Tree& have, const std::string& path) {
  if (saved.tag() == kDiffersTag) {
    refuse(path + ": each of the " + std::to_string(reader_.manifest().state_json.size()) +
           " ranks has saved another value, and this run has another number of ranks");
    return have;
  }
  if (have.tensor() != nullptr) return fit_tensor(saved, have, path);
  const bool is_container = have.kind() == Tree::Kind::list || have.kind() == Tree::Kind::map;
  if (!is_container) return create(saved, path);
  if (saved.kind() != have.kind()) {
    refuse(path + ": " + std::string(kind_name(have)) + ", but " + std::string(kind_name(saved)) +
           " in " + options_.source);
    return have;
  }
  return have.kind() == Tree::Kind::list ? fit_list(saved, have, path) : fit_map(saved, have, path);
}

Tree TreeFit::fit_tensor(const Tree& saved, const Tree& have, const std::string& path) {
  const TensorView& view = *have.tensor();
  const auto misfit = [&](std::string why) {
    refuse(path + ": " + std::move(why));
    return have;
  };
  if (saved.tensor() == nullptr)
    return misfit("a tensor, but " + std::string(kind_name(saved)) + " in " + options_.source);
  if (view.is_read_only) return misfit("cannot be restored into: the view is of constant memory");
  if (const Status fits = span_of(view).status(); !fits.ok())
    return misfit("cannot be restored into: " + std::string(fits.message()));
  const TensorView& stored = *saved.tensor();
  Tree made = have;
  made.tensor()->is_torch = stored.is_torch;
  made.tensor()->element = stored.element;
  made.tensor()->name = stored.name;
  TreeAccess::set_tags(made, TreeAccess::tags(saved));
  const std::vector<std::uint64_t>& whole = view.is_slice() ? view.global_shape : view.shape;
  if (view.is_slice() && is_empty(view)) return made;  // ranks with elements check whether it fits
  if (reader_.find(stored.name) == nullptr)
    return misfit("there are no elements of it in " + options_.source);
  if (view.type != stored.type || whole != stored.shape)
    return misfit((view.is_slice() ? "a part of " : "") + describe_tensor(view.type, whole) +
                  ", but " + describe_tensor(stored.type, stored.shape) + " in " + options_.source);
  add_target(stored.name, *made.tensor(), path);
  return made;
}

void TreeFit::add_target(const std::string& name, const TensorView& view, const std::string& path) {
  ReadTarget target{.name = name,
                    .memory = view.memory,
                    .first_bytes = view.first_bytes,
                    .strides_bytes = view.strides_bytes,
                    .device = view.device};
  if (view.is_slice()) {
    target.offsets = view.offsets;
    target.shape = view.shape;
  }
  const bool is_own = view.owner != nullptr && made_.contains(name);
  if (options_.is_staged && !is_own) {
    if (view.device != kHostMemory) {
      refuse(path + ": it is on a device, and verify_before is for host memory");
      return;
    }
    const auto size_bytes = static_cast<std::size_t>(*tensor_bytes(view.type, view.shape));
    Staged staged{.memory = allocate(size_bytes), .into = view};
    target.memory = {static_cast<std::byte*>(staged.memory.get()), size_bytes};
    target.first_bytes = 0;
    target.strides_bytes = {};
    staged_.push_back(std::move(staged));
  }
  fills_memory_ = fills_memory_ || (!options_.is_staged && !is_own);
  // Two places that are the same memory are read once: the later one decides.
  const auto [place, is_new] =
      places_.emplace(target.memory.data() + target.first_bytes, targets_.size());
  const auto is_alike = [&](const ReadTarget& other) {
    return other.memory.size() == target.memory.size() && other.device == target.device &&
           other.strides_bytes == target.strides_bytes && other.shape == target.shape;
  };
  if (!is_new && !is_empty(view) && is_alike(targets_[place->second]))
    targets_[place->second] = std::move(target);
  else
    targets_.push_back(std::move(target));
}

Tree TreeFit::fit_list(const Tree& saved, const Tree& have, const std::string& path) {
  Tree::List items;
  for (std::size_t i = 0; i < saved.size(); ++i) {
    const Tree none;
    const Tree& there = i < have.size() ? have.items()[i] : none;
    items.push_back(fit(saved.items()[i], there, path + "." + std::to_string(i)));
  }
  for (std::size_t i = saved.size(); i < have.size(); ++i)
    if (holds_tensor(have.items()[i]))
      refuse(path + "." + std::to_string(i) + ": not in " + options_.source);
  Tree made = Tree::list(std::move(items));
  TreeAccess::set_tags(made, TreeAccess::tags(saved));
  return made;
}

void TreeFit::add_missing(const std::string& path, const std::string& name) {
  if (options_.is_strict)
    refuse(path + "." + name + ": not in " + options_.source);
  else
    missing_.push_back(path + "." + name);
}

Tree TreeFit::fit_map(const Tree& saved, const Tree& have, const std::string& path) {
  std::map<std::string_view, const Tree*> there;
  for (const Tree::Field& field : have.fields()) there.emplace(field.name, &field.value);
  Tree made = Tree::map();
  const Tree none;
  for (const Tree::Field& field : saved.fields()) {
    const auto found = there.find(field.name);
    const Tree& value = found == there.end() ? none : *found->second;
    TreeAccess::add(made, field.name, fit(field.value, value, path + "." + field.name));
    if (found != there.end()) there.erase(found);
  }
  for (const Tree::Field& field : have.fields()) {
    if (!there.contains(field.name)) continue;
    add_missing(path, field.name);
    TreeAccess::add(made, field.name, field.value);
  }
  TreeAccess::set_tags(made, TreeAccess::tags(saved));
  return made;
}

Tree TreeFit::create(const Tree& saved, const std::string& path) {
  if (saved.tag() == kDiffersTag) return fit(saved, saved, path);  // does not fit
  switch (saved.kind()) {
    case Tree::Kind::tensor: return create_tensor(saved, path);
    case Tree::Kind::list: return fit_list(saved, Tree::list({}), path);
    case Tree::Kind::map: return fit_map(saved, Tree::map(), path);
    default: return saved;
  }
}

Tree TreeFit::create_tensor(const Tree& saved, const std::string& path) {
  Tree made = saved;
  TensorView& view = *made.tensor();
  if (std::ranges::find(TreeAccess::tags(saved), kSliceTag) != TreeAccess::tags(saved).end()) {
    refuse(path + ": a part of a tensor, which is restored into a view of a part alone");
    return made;
  }
  const auto known = made_.find(view.name);
  if (known == made_.end()) {
    const Result<std::uint64_t> size_bytes = tensor_bytes(view.type, view.shape);
    if (!size_bytes.ok() || reader_.find(view.name) == nullptr) {
      refuse(path + ": there is no tensor " + view.name + " in " + options_.source);
      return made;
    }
    view.owner = allocate(static_cast<std::size_t>(*size_bytes));
    view.memory = {static_cast<std::byte*>(view.owner.get()),
                   static_cast<std::size_t>(*size_bytes)};
    made_.emplace(view.name, view);
    add_target(view.name, view, path);
  } else {
    view.owner = known->second.owner;
    view.memory = known->second.memory;
  }
  return made;
}

Status TreeFit::check() const {
  if (lines_.empty()) return {};
  std::string text;
  if (lines_.size() > 1)
    text = std::to_string(lines_.size()) + " places do not fit " + options_.source + ":\n  ";
  for (std::size_t i = 0; i < lines_.size() && i < kToldMax; ++i)
    text += (i > 0 ? "\n  " : "") + lines_[i];
  if (lines_.size() > kToldMax)
    text += "\n  and " + std::to_string(lines_.size() - kToldMax) + " more";
  return {Code::invalid_argument, std::move(text)};
}

std::vector<ReadTarget> TreeFit::targets() const {
  return targets_;
}

void TreeFit::copy() const {
  for (const Staged& staged : staged_)
    if (!is_empty(staged.into))
      scatter(static_cast<const std::byte*>(staged.memory.get()), staged.into);
}

}  // namespace stoker::internal
