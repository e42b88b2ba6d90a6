/// \file
/// Tensors that several ranks have: who stores them, so that each is stored once, or once in each
/// place if nodes have private disks (manifest/places.h). Pure.
///
/// Ranks that have a tensor of the same name, type and shape, or the same slice of one, are
/// expected to have the same bytes. Before anything is stored once, all ranks send the digests of
/// what they have ("count"), and rank 0 decides. The next saves follow that decision without
/// counting, as long as no rank has other tensors: a rank then only hashes what another one stores,
/// and the commit compares the digests. If they differ, the save fails, and the next one counts
/// again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/checksum.h"
#include "checkpoint/staging/layout.h"
#include "stoker/status.h"

namespace stoker {

/// A tensor or a slice, as the ranks tell each other about it.
struct SharedPiece {
  Digest128 name = {};    ///< XXH3-128 of its name.
  Digest128 key = {};     ///< Of its name, type, shape and place: equal on all ranks that have it.
  Digest128 digest = {};  ///< Of its bytes.
  std::uint64_t size_bytes = 0;
  bool is_slice = false;

  friend bool operator==(const SharedPiece&, const SharedPiece&) = default;
};

/// Who stores a piece that other ranks have as well, or have differently.
struct PieceOwner {
  Digest128 key = {};
  std::uint32_t rank = 0;
  std::uint32_t first = 0;  ///< If every rank stores its own: the first that has the name.

  friend bool operator==(const PieceOwner&, const PieceOwner&) = default;
};
/// In place of a rank: every rank stores its own, because they differ in bytes, type or shape.
inline constexpr std::uint32_t kEveryRank = ~std::uint32_t{0};
/// In place of a rank: the ranks have different bytes for the same slice.
inline constexpr std::uint32_t kDifferingSlices = kEveryRank - 1;

/// The decision of rank 0.
struct PieceOwners {
  std::vector<PieceOwner> owners;
  std::vector<std::uint64_t> spared_bytes;  ///< Of each rank: of copies that it does not store.
};

/// Chooses one of the ranks that have a piece, so that all store about the same number of bytes.
/// `ranks` has the pieces of each rank, `places` the place of each: one rank of every place that
/// has the piece is chosen. Empty: all are in one place.
PieceOwners choose_owners(std::span<const std::span<const SharedPiece>> ranks,
                          std::span<const std::uint32_t> places = {});

/// The texts of both in a message, and the inverse: nothing for any other text.
std::string format_pieces(std::span<const SharedPiece> pieces);
std::string format_owners(std::span<const PieceOwner> owners);
std::optional<std::vector<SharedPiece>> parse_pieces(std::string_view text);
std::optional<std::vector<PieceOwner>> parse_owners(std::string_view text);

/// Returns SharedPiece::key for each tensor.
std::vector<Digest128> piece_keys(std::span<const SaveTensor> tensors);

/// Returns the names of the tensors that every rank stores because they differ, on the first rank
/// that has them: the user is told once.
std::vector<std::string> find_differing(std::span<const SaveTensor> tensors,
                                        std::span<const Digest128> keys,
                                        std::span<const PieceOwner> owners, std::uint32_t rank);

/// The tensors of one rank, divided.
struct SplitTensors {
  std::vector<SaveTensor> stored;   ///< By this rank, with the names in the files.
  std::vector<std::size_t> copies;  ///< Indexes of those that other ranks store.
};

/// What a rank knows about the decision that its saves follow.
///
/// Thread safety: none.
class Sharing {
 public:
  Sharing(std::uint32_t rank, std::uint32_t world_size) : rank_(rank), world_size_(world_size) {}

  /// Returns the number of the save in which the ranks have decided about tensors with these keys;
  /// 0 if they must be counted.
  std::uint64_t number_for(std::span<const Digest128> keys) const;
  /// `places`: as for choose_owners().
  void learn(std::uint64_t number, std::span<const Digest128> keys,
             std::span<const PieceOwner> owners, std::span<const std::uint32_t> places = {});
  /// Has the next save count.
  void forget() { number_ = 0; }

  /// Divides the tensors. Before a decision, this rank stores all of them. The message of
  /// `invalid_argument` names a slice that differs between ranks.
  Result<SplitTensors> split(std::span<const SaveTensor> tensors,
                             std::span<const Digest128> keys) const;

 private:
  struct HashKey {
    std::size_t operator()(const Digest128& key) const noexcept { return key.low; }
  };

  const std::uint32_t rank_;
  const std::uint32_t world_size_;
  std::uint64_t number_ = 0;
  Digest128 all_keys_ = {};  // the digest of the keys
  std::unordered_map<Digest128, std::uint32_t, HashKey> owners_;
};

}  // namespace stoker
