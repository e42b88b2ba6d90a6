#include "checkpoint/save/sharing.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "checkpoint/manifest/names.h"

namespace stoker {
namespace {

constexpr std::size_t kDigestChars = 32;
constexpr std::size_t kSizeChars = 16;
constexpr std::size_t kRankChars = 8;
constexpr std::size_t kPieceChars = 3 * kDigestChars + kSizeChars + 1;
constexpr std::size_t kOwnerChars = kDigestChars + 2 * kRankChars;

std::optional<std::uint64_t> parse_hex(std::string_view text) {
  std::uint64_t value = 0;
  constexpr int kHex = 16;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, kHex);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// A piece, and a rank that has it.
struct Holding {
  const SharedPiece* piece = nullptr;
  std::uint32_t rank = 0;
};

auto order_of(const Digest128& digest) {
  return std::pair(digest.high, digest.low);
}

/// All ranks that have one piece.
struct Group {
  std::span<const Holding> holdings;  // in the order of ranks
  bool is_same = true;
  std::uint32_t first = 0;  // the first rank that has the name

  const SharedPiece& piece() const { return *holdings.front().piece; }
};

bool is_whole_of(const Group& group, const Digest128& name) {
  return group.piece().name == name && !group.piece().is_slice;
}

std::vector<Group> group_by_key(std::span<const Holding> sorted) {
  std::vector<Group> groups;
  for (std::size_t begin = 0; begin < sorted.size();) {
    std::size_t end = begin;
    while (end < sorted.size() && sorted[end].piece->key == sorted[begin].piece->key) ++end;
    Group group{.holdings = sorted.subspan(begin, end - begin), .first = sorted[begin].rank};
    group.is_same = std::ranges::all_of(group.holdings, [&](const Holding& one) {
      return one.piece->digest == group.piece().digest;
    });
    groups.push_back(group);
    begin = end;
  }
  // Whole tensors of one name with other types or shapes differ as well.
  for (std::size_t begin = 0; begin < groups.size();) {
    const Digest128 name = groups[begin].piece().name;
    std::size_t end = begin + 1;
    while (end < groups.size() && is_whole_of(groups[begin], name) &&
           is_whole_of(groups[end], name))
      ++end;
    const std::span<Group> kinds = std::span(groups).subspan(begin, end - begin);
    const std::uint32_t first = std::ranges::min(kinds, {}, &Group::first).first;
    for (Group& group : kinds) {
      group.is_same = group.is_same && kinds.size() == 1;
      group.first = first;
    }
    begin = end;
  }
  return groups;
}

void append_number(std::string& bytes, std::uint64_t number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void append_numbers(std::string& bytes, std::span<const std::uint64_t> numbers) {
  append_number(bytes, numbers.size());
  for (const std::uint64_t number : numbers) append_number(bytes, number);
}

Digest128 key_of(const SaveTensor& tensor) {
  std::string bytes = tensor.name;
  const std::uint64_t type[] = {tensor.name.size(), static_cast<std::uint64_t>(tensor.type)};
  append_numbers(bytes, type);
  append_numbers(bytes, tensor.shape);
  const bool is_whole = tensor.global_shape.empty();
  append_numbers(bytes, is_whole ? tensor.shape : tensor.global_shape);
  append_numbers(bytes,
                 is_whole ? std::vector<std::uint64_t>(tensor.shape.size()) : tensor.offsets);
  return xxh3_128(std::as_bytes(std::span(bytes)));
}

}  // namespace

PieceOwners choose_owners(std::span<const std::span<const SharedPiece>> ranks,
                          std::span<const std::uint32_t> places) {
  std::vector<Holding> holdings;
  for (std::uint32_t rank = 0; rank < ranks.size(); ++rank)
    for (const SharedPiece& piece : ranks[rank]) holdings.push_back({&piece, rank});
  std::ranges::stable_sort(holdings, {}, [](const Holding& one) {
    return std::tuple(order_of(one.piece->name), one.piece->is_slice, order_of(one.piece->key));
  });
  PieceOwners chosen;
  chosen.spared_bytes.resize(ranks.size());
  std::vector<std::uint64_t> loads(ranks.size());
  std::vector<Group> shared;
  for (const Group& group : group_by_key(holdings)) {
    if (group.is_same && group.holdings.size() > 1) {
      shared.push_back(group);
      continue;
    }
    for (const Holding& one : group.holdings) loads[one.rank] += one.piece->size_bytes;
    if (group.is_same) continue;
    const bool is_slice = group.piece().is_slice;
    chosen.owners.push_back({.key = group.piece().key,
                             .rank = is_slice ? kDifferingSlices : kEveryRank,
                             .first = group.first});
  }
  // The largest first: the small ones then even out the loads.
  std::ranges::stable_sort(shared, std::ranges::greater(),
                           [](const Group& group) { return group.piece().size_bytes; });
  for (const Group& group : shared) {
    std::map<std::uint32_t, std::uint32_t> least;  // of each place, the rank with the least load
    for (const Holding& one : group.holdings) {
      const auto [found, is_first] = least.emplace(places.empty() ? 0 : places[one.rank], one.rank);
      if (!is_first && loads[one.rank] < loads[found->second]) found->second = one.rank;
    }
    const std::uint64_t size_bytes = group.piece().size_bytes;
    for (const Holding& one : group.holdings) chosen.spared_bytes[one.rank] += size_bytes;
    for (const auto& [place, rank] : least) {
      loads[rank] += size_bytes;
      chosen.spared_bytes[rank] -= size_bytes;
      chosen.owners.push_back({.key = group.piece().key, .rank = rank});
    }
  }
  return chosen;
}

std::string format_pieces(std::span<const SharedPiece> pieces) {
  std::string out;
  out.reserve(pieces.size() * kPieceChars);
  for (const SharedPiece& piece : pieces)
    fmt::format_to(std::back_inserter(out), "{}{}{}{:016x}{}", piece.name.hex(), piece.key.hex(),
                   piece.digest.hex(), piece.size_bytes, piece.is_slice ? 's' : 'w');
  return out;
}

std::string format_owners(std::span<const PieceOwner> owners) {
  std::string out;
  out.reserve(owners.size() * kOwnerChars);
  for (const PieceOwner& owner : owners)
    fmt::format_to(std::back_inserter(out), "{}{:08x}{:08x}", owner.key.hex(), owner.rank,
                   owner.first);
  return out;
}

std::optional<std::vector<SharedPiece>> parse_pieces(std::string_view text) {
  if (text.size() % kPieceChars != 0) return std::nullopt;
  std::vector<SharedPiece> pieces;
  for (; !text.empty(); text.remove_prefix(kPieceChars)) {
    const Result<Digest128> name = Digest128::from_hex(text.substr(0, kDigestChars));
    const Result<Digest128> key = Digest128::from_hex(text.substr(kDigestChars, kDigestChars));
    const auto digest = Digest128::from_hex(text.substr(2 * kDigestChars, kDigestChars));
    const auto size_bytes = parse_hex(text.substr(3 * kDigestChars, kSizeChars));
    const char kind = text[kPieceChars - 1];
    if (!name.ok() || !key.ok() || !digest.ok() || !size_bytes || (kind != 's' && kind != 'w'))
      return std::nullopt;
    pieces.push_back({.name = *name,
                      .key = *key,
                      .digest = *digest,
                      .size_bytes = *size_bytes,
                      .is_slice = kind == 's'});
  }
  return pieces;
}

std::optional<std::vector<PieceOwner>> parse_owners(std::string_view text) {
  if (text.size() % kOwnerChars != 0) return std::nullopt;
  std::vector<PieceOwner> owners;
  for (; !text.empty(); text.remove_prefix(kOwnerChars)) {
    const Result<Digest128> key = Digest128::from_hex(text.substr(0, kDigestChars));
    const auto rank = parse_hex(text.substr(kDigestChars, kRankChars));
    const auto first = parse_hex(text.substr(kDigestChars + kRankChars, kRankChars));
    if (!key.ok() || !rank || !first) return std::nullopt;
    owners.push_back({.key = *key,
                      .rank = static_cast<std::uint32_t>(*rank),
                      .first = static_cast<std::uint32_t>(*first)});
  }
  return owners;
}

std::vector<Digest128> piece_keys(std::span<const SaveTensor> tensors) {
  std::vector<Digest128> keys;
  keys.reserve(tensors.size());
  for (const SaveTensor& tensor : tensors) keys.push_back(key_of(tensor));
  return keys;
}

std::vector<std::string> find_differing(std::span<const SaveTensor> tensors,
                                        std::span<const Digest128> keys,
                                        std::span<const PieceOwner> owners, std::uint32_t rank) {
  std::set<std::pair<std::uint64_t, std::uint64_t>> differing;
  for (const PieceOwner& owner : owners)
    if (owner.rank == kEveryRank && owner.first == rank) differing.insert(order_of(owner.key));
  std::vector<std::string> names;
  for (std::size_t i = 0; i < tensors.size() && !differing.empty(); ++i)
    if (!tensors[i].is_per_rank && differing.contains(order_of(keys[i])))
      names.push_back(tensors[i].name);
  return names;
}

namespace {

Digest128 digest_of(std::span<const Digest128> keys) {
  return xxh3_128(std::as_bytes(keys));
}

}  // namespace

std::uint64_t Sharing::number_for(std::span<const Digest128> keys) const {
  return digest_of(keys) == all_keys_ ? number_ : 0;
}

void Sharing::learn(std::uint64_t number, std::span<const Digest128> keys,
                    std::span<const PieceOwner> owners, std::span<const std::uint32_t> places) {
  number_ = number;
  all_keys_ = digest_of(keys);
  owners_.clear();
  for (const PieceOwner& owner : owners) {
    const bool is_of_rank = owner.rank < places.size();
    if (!is_of_rank || places[owner.rank] == places[rank_]) owners_.emplace(owner.key, owner.rank);
  }
}

Result<SplitTensors> Sharing::split(std::span<const SaveTensor> tensors,
                                    std::span<const Digest128> keys) const {
  SplitTensors split;
  if (world_size_ == 1) {
    split.stored.assign(tensors.begin(), tensors.end());
    return split;
  }
  const bool is_decided = number_for(keys) != 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto owner = is_decided ? owners_.find(keys[i]) : owners_.end();
    std::uint32_t rank = owner == owners_.end() ? rank_ : owner->second;
    if (tensors[i].is_per_rank) rank = kEveryRank;
    if (rank == kDifferingSlices)
      return Status(Code::invalid_argument,
                    "tensor " + tensors[i].name +
                        ": several ranks have the same slice of it, with different bytes");
    if (rank != rank_ && rank != kEveryRank) {
      split.copies.push_back(i);
      continue;
    }
    SaveTensor& stored = split.stored.emplace_back(tensors[i]);
    if (rank == kEveryRank) stored.name = rank_tensor_name(rank_, stored.name);
  }
  return split;
}

}  // namespace stoker
