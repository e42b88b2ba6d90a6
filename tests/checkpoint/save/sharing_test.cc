// What several ranks have is stored once, and by one that has it.
#include "checkpoint/save/sharing.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "checkpoint/save/save_messages.h"

namespace stoker {
namespace {

using Pieces = std::vector<SharedPiece>;

/// A whole tensor: `kind` stands for its type and shape, `bytes` for its elements.
SharedPiece whole(std::uint64_t name, std::uint64_t bytes, std::uint64_t size_bytes = 100,
                  std::uint64_t kind = 0) {
  return {.name = {.low = name},
          .key = {.low = name, .high = kind},
          .digest = {.low = bytes},
          .size_bytes = size_bytes};
}

SharedPiece slice(std::uint64_t name, std::uint64_t place, std::uint64_t bytes) {
  SharedPiece made = whole(name, bytes, 100, place);
  made.is_slice = true;
  return made;
}

PieceOwners owners_of(const std::vector<Pieces>& ranks) {
  const std::vector<std::span<const SharedPiece>> views(ranks.begin(), ranks.end());
  return choose_owners(views);
}

/// The owner of each piece that has one, by name and kind.
std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint32_t> by_key(const PieceOwners& chosen) {
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint32_t> found;
  for (const PieceOwner& owner : chosen.owners)
    EXPECT_TRUE(found.emplace(std::pair(owner.key.low, owner.key.high), owner.rank).second);
  return found;
}

std::uint64_t sum_of(const std::vector<std::uint64_t>& numbers) {
  return std::reduce(numbers.begin(), numbers.end());
}

TEST(SharingTest, equal_pieces_have_one_owner_among_those_that_have_them) {
  const PieceOwners chosen = owners_of({{whole(1, 7)}, {whole(1, 7), whole(2, 8)}, {whole(2, 8)}});
  const auto found = by_key(chosen);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_LE(found.at({1, 0}), 1U);
  EXPECT_GE(found.at({2, 0}), 1U);
  EXPECT_EQ(sum_of(chosen.spared_bytes), 200U);
  EXPECT_EQ(chosen.spared_bytes[1], 100U) << "it has both, and stores one";
}

TEST(SharingTest, every_place_that_has_a_piece_has_one_owner) {
  const std::vector<Pieces> ranks = {
      {whole(1, 7)}, {whole(1, 7)}, {whole(1, 7)}, {whole(1, 7)}, {}};
  const std::vector<std::span<const SharedPiece>> views(ranks.begin(), ranks.end());
  const std::vector<std::uint32_t> places = {0, 1, 0, 2, 1};
  const PieceOwners chosen = choose_owners(views, places);
  std::vector<std::uint32_t> owners;
  for (const PieceOwner& owner : chosen.owners) owners.push_back(owner.rank);
  EXPECT_EQ(owners, (std::vector<std::uint32_t>{0, 1, 3}));
  EXPECT_EQ(chosen.spared_bytes, (std::vector<std::uint64_t>{0, 0, 100, 0, 0}));

  const std::vector<Digest128> keys = {whole(1, 7).key};
  std::vector<SaveTensor> tensors(1);
  tensors[0].name = "w";
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    Sharing sharing(rank, 5);
    sharing.learn(1, keys, chosen.owners, places);
    EXPECT_EQ(sharing.split(tensors, keys)->stored.size(), rank == 2 ? 0U : 1U) << rank;
  }
}

TEST(SharingTest, what_one_rank_has_needs_no_decision) {
  EXPECT_TRUE(owners_of({{whole(1, 7)}, {whole(2, 7)}, {}}).owners.empty());
}

TEST(SharingTest, different_bytes_types_or_shapes_are_stored_by_every_rank) {
  const auto bytes = by_key(owners_of({{whole(1, 7)}, {whole(1, 8)}, {whole(1, 7)}}));
  EXPECT_EQ(bytes.at({1, 0}), kEveryRank);
  const auto kinds = by_key(owners_of({{whole(1, 7, 100, 0)}, {whole(1, 7, 100, 5)}}));
  EXPECT_EQ(kinds.at({1, 0}), kEveryRank);
  EXPECT_EQ(kinds.at({1, 5}), kEveryRank);
}

TEST(SharingTest, the_first_rank_that_has_them_names_those_that_differ) {
  const std::vector<SaveTensor> tensors = {{.name = "same", .shape = {2}},
                                           {.name = "bytes", .shape = {2}},
                                           {.name = "shape", .shape = {2}},
                                           {.name = "own", .shape = {2}, .is_per_rank = true}};
  std::vector<SaveTensor> others = tensors;
  others[2].shape = {3};
  const auto pieces = [](std::span<const SaveTensor> all, std::uint64_t bytes) {
    Pieces made;
    for (std::size_t i = 0; i < 3; ++i)
      made.push_back({.name = xxh3_128(std::as_bytes(std::span(all[i].name))),
                      .key = piece_keys(all)[i],
                      .digest = {.low = i == 0 ? 0 : bytes}});
    return made;
  };
  const PieceOwners chosen = owners_of({{}, pieces(tensors, 1), pieces(others, 2)});
  const auto named_on = [&](std::uint32_t rank, std::span<const SaveTensor> all) {
    return find_differing(all, piece_keys(all), chosen.owners, rank);
  };
  EXPECT_EQ(named_on(1, tensors), (std::vector<std::string>{"bytes", "shape"}));
  EXPECT_TRUE(named_on(0, {}).empty());
  EXPECT_TRUE(named_on(2, others).empty());
}

TEST(SharingTest, slices_have_an_owner_for_each_place_and_must_agree) {
  const auto found =
      by_key(owners_of({{slice(1, 0, 7)}, {slice(1, 1, 8)}, {slice(1, 0, 7)}, {slice(1, 1, 9)}}));
  EXPECT_NE(found.at({1, 0}), kEveryRank);
  EXPECT_EQ(found.at({1, 1}), kDifferingSlices);
}

TEST(SharingTest, the_bytes_are_balanced) {
  std::mt19937_64 random(1);
  Pieces all;
  std::uint64_t total = 0;
  std::uint64_t largest = 0;
  for (std::uint64_t name = 0; name < 500; ++name) {
    const std::uint64_t size_bytes = random() % 100'000;
    all.push_back(whole(name, 1, size_bytes));
    total += size_bytes;
    largest = std::max(largest, size_bytes);
  }
  std::vector<std::uint64_t> loads(8);
  for (const auto& [key, rank] : by_key(owners_of(std::vector<Pieces>(8, all))))
    loads.at(rank) += all[key.first].size_bytes;
  for (const std::uint64_t load : loads) EXPECT_LE(load, total / 8 + largest);
}

TEST(SharingTest, texts_survive_a_round_trip_and_others_are_refused) {
  const Pieces pieces = {whole(1, 2, 3, 4), slice(5, 6, 7)};
  EXPECT_EQ(parse_pieces(format_pieces(pieces)), pieces);
  const std::vector<PieceOwner> owners = {{.key = {.low = 1}, .rank = 3},
                                          {.key = {.high = 2}, .rank = kEveryRank, .first = 4}};
  EXPECT_EQ(parse_owners(format_owners(owners)), owners);
  std::string text = format_pieces(pieces);
  text.back() = 'x';
  EXPECT_FALSE(parse_pieces(text));
  EXPECT_FALSE(parse_pieces(text.substr(1)));
  EXPECT_FALSE(parse_owners("0"));
  EXPECT_TRUE(parse_pieces("")->empty());
  BeginMessage message{.step = 1, .shared_number = 9, .pieces = pieces};
  EXPECT_EQ(parse_begin_message(format_message(message))->pieces, pieces);
  message.pieces.reset();
  EXPECT_FALSE(parse_begin_message(format_message(message))->pieces.has_value());
}

TEST(SharingTest, a_rank_stores_what_it_owns_under_the_right_name) {
  const std::vector<SaveTensor> tensors = {{.name = "a", .shape = {2}},
                                           {.name = "b", .shape = {2}},
                                           {.name = "c", .shape = {2}},
                                           {.name = "own", .shape = {2}, .is_per_rank = true},
                                           {.name = "sole", .shape = {2}}};
  const std::vector<Digest128> keys = piece_keys(tensors);
  Sharing sharing(1, 2);
  EXPECT_EQ(sharing.number_for(keys), 0U);
  EXPECT_EQ(sharing.split(tensors, keys)->stored.size(), 5U) << "before a decision";
  sharing.learn(3, keys,
                std::vector<PieceOwner>{{keys[0], 0}, {keys[1], 1}, {keys[2], kEveryRank}});
  EXPECT_EQ(sharing.number_for(keys), 3U);
  const Result<SplitTensors> split = sharing.split(tensors, keys);
  ASSERT_TRUE(split.ok());
  EXPECT_EQ(split->copies, std::vector<std::size_t>{0});
  std::vector<std::string> names;
  for (const SaveTensor& tensor : split->stored) names.push_back(tensor.name);
  EXPECT_EQ(names, (std::vector<std::string>{"b", "rank-00001.c", "rank-00001.own", "sole"}));
  EXPECT_EQ(sharing.number_for(piece_keys(std::span(tensors).first(4))), 0U) << "other tensors";
  sharing.learn(4, keys, std::vector<PieceOwner>{{keys[0], kDifferingSlices}});
  EXPECT_EQ(sharing.split(tensors, keys).status().code(), Code::invalid_argument);
  sharing.forget();
  EXPECT_EQ(sharing.number_for(keys), 0U);
}

TEST(SharingTest, keys_differ_by_name_type_shape_and_place) {
  const SaveTensor one{.name = "w", .shape = {2, 3}};
  std::vector<SaveTensor> all(6, one);
  all[1].name = "v";
  all[2].type = TensorType::i32;
  all[3].shape = {3, 2};
  all[4].global_shape = {4, 3};
  all[4].offsets = {0, 0};
  all[5].global_shape = {4, 3};
  all[5].offsets = {2, 0};
  const std::vector<Digest128> keys = piece_keys(all);
  for (std::size_t i = 0; i < keys.size(); ++i)
    for (std::size_t k = 0; k < i; ++k) EXPECT_NE(keys[i], keys[k]) << i << " " << k;
  SaveTensor same = one;  // a slice that is the whole
  same.global_shape = {2, 3};
  same.offsets = {0, 0};
  EXPECT_EQ(piece_keys(std::span(&same, 1))[0], keys[0]);
}

}  // namespace
}  // namespace stoker
