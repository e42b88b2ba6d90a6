#include "stoker/cursor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/checksum.h"
#include "base/word_bytes.h"
#include "dataset/order/batch_cut.h"
#include "dataset/order/order.h"
#include "formats/json/strict_json.h"

namespace stoker {
namespace {

using internal::append_word;
using internal::word_at;

constexpr std::uint64_t kVersion = 1;
constexpr std::string_view kWhat = "cursor";
constexpr std::array kMagic = {std::byte{'S'}, std::byte{'K'}, std::byte{'C'}, std::byte{'U'}};
constexpr std::size_t kHeadBytes = 8;  // magic, version, shuffle, tail
constexpr std::size_t kBodyBytes = kCursorBytes - 8;

constexpr std::array<std::string_view, 13> kMembers = {
    "version",           "shuffle", "seed",         "epoch_samples", "block_samples",
    "window_blocks",     "lanes",   "deal_samples", "fingerprint",   "tail",
    "global_batch_size", "epoch",   "position"};

/// What Python's state_dict() adds for frameworks that count epochs of their own.
constexpr std::string_view kFrameworkEpoch = "framework_epoch";

Status corrupt(std::string_view message) {
  return Status(Code::corrupt, fmt::format("{}: {}", kWhat, message));
}

Status newer(std::uint64_t version) {
  return Status(Code::unsupported, fmt::format("{}: version {} was written by a newer Stoker; "
                                               "update this one to read it",
                                               kWhat, version));
}

/// `corrupt` if no run can be at this position.
Status check_numbers(const Cursor& cursor) {
  const Result<OrderOptions> resolved = resolve_order(cursor.order);
  if (!resolved.ok()) return corrupt(resolved.status().message());
  if (*resolved != cursor.order) return corrupt("the order's numbers do not fit its shuffle");
  const Result<BatchCut> cut = BatchCut::make({.global_batch_size = cursor.global_batch_size,
                                               .tail = cursor.tail,
                                               .epoch_samples = cursor.order.sample_count});
  if (!cut.ok()) return corrupt(cut.status().message());
  if (cursor.position > cursor.order.sample_count)
    return corrupt(fmt::format("position {} is beyond the epoch's {} samples", cursor.position,
                               cursor.order.sample_count));
  if (cursor.epoch > (UINT64_MAX - cursor.position) / cursor.order.sample_count)
    return corrupt(fmt::format("epoch {} is out of range", cursor.epoch));
  return {};
}

/// The options as resolve_order() returns them: the numbers of block order are 0 in other orders.
OrderOptions as_kept(const OrderOptions& order) {
  if (order.shuffle == Shuffle::block) return order;
  return {.shuffle = order.shuffle, .seed = order.seed, .sample_count = order.sample_count};
}

Status check_members(const JsonView& root) {
  if (!root.value().is_object()) return root.corrupt("is not an object");
  for (const auto& [name, value] : root.value().sorted_items())
    if (name != kFrameworkEpoch && std::ranges::find(kMembers, name) == kMembers.end())
      return root.corrupt("unknown member " + quote_for_message(name));
  return {};
}

Status read_number(const JsonView& root, std::string_view name, std::uint64_t& number) {
  STOKER_ASSIGN(const JsonView view, root.at(name));
  STOKER_ASSIGN(number, view.u64());
  return {};
}

/// Reads the name of a shuffle or tail; an unknown name is `corrupt`, with its place.
template <typename T>
Status read_name(const JsonView& root, std::string_view name, Result<T> (*parse)(std::string_view),
                 T& value) {
  STOKER_ASSIGN(const JsonView view, root.at(name));
  STOKER_ASSIGN(const std::string text, view.text());
  const Result<T> parsed = parse(text);
  if (!parsed.ok()) return view.corrupt("unknown name " + quote_for_message(text));
  value = *parsed;
  return {};
}

Status read_fingerprint(const JsonView& root, Digest128& fingerprint) {
  STOKER_ASSIGN(const JsonView view, root.at("fingerprint"));
  STOKER_ASSIGN(const std::string text, view.text());
  const Result<Digest128> parsed = Digest128::from_hex(text);
  if (!parsed.ok()) return view.corrupt("not 32 lower-case hexadecimal digits");
  fingerprint = *parsed;
  return {};
}

}  // namespace

std::vector<std::byte> encode_cursor(const Cursor& cursor) {
  const OrderOptions order = as_kept(cursor.order);
  std::vector<std::byte> bytes(kMagic.begin(), kMagic.end());
  bytes.reserve(kCursorBytes);
  bytes.push_back(static_cast<std::byte>(kVersion));
  bytes.push_back(std::byte{0});
  bytes.push_back(static_cast<std::byte>(order.shuffle));
  bytes.push_back(static_cast<std::byte>(cursor.tail));
  for (const std::uint64_t word :
       {order.seed, order.sample_count, order.block_samples, order.window_blocks, order.lanes,
        order.deal_samples, cursor.fingerprint.low, cursor.fingerprint.high,
        cursor.global_batch_size, cursor.epoch, cursor.position})
    append_word(bytes, word);
  append_word(bytes, xxh3_128(bytes).low);
  return bytes;
}

Result<Cursor> decode_cursor(std::span<const std::byte> bytes) {
  if (bytes.size() < kHeadBytes || !std::ranges::equal(bytes.first(kMagic.size()), kMagic))
    return corrupt("the bytes are not a cursor");
  const std::uint64_t version = word_at(bytes) >> 32 & 0xffff;
  if (version > kVersion) return newer(version);
  if (version == 0) return corrupt("there is no version 0");
  if (bytes.size() != kCursorBytes)
    return corrupt(fmt::format("has {} bytes, not {}", bytes.size(), kCursorBytes));
  if (word_at(bytes.subspan(kBodyBytes)) != xxh3_128(bytes.first(kBodyBytes)).low)
    return corrupt("checksum mismatch");

  std::array<std::uint64_t, (kBodyBytes - kHeadBytes) / 8> words = {};
  for (std::size_t i = 0; i < words.size(); ++i)
    words[i] = word_at(bytes.subspan(kHeadBytes + 8 * i));
  Cursor cursor;
  cursor.order = {.shuffle = static_cast<Shuffle>(bytes[6]),
                  .seed = words[0],
                  .sample_count = words[1],
                  .block_samples = words[2],
                  .window_blocks = words[3],
                  .lanes = words[4],
                  .deal_samples = words[5]};
  cursor.tail = static_cast<Tail>(bytes[7]);
  cursor.fingerprint = {.low = words[6], .high = words[7]};
  cursor.global_batch_size = words[8];
  cursor.epoch = words[9];
  cursor.position = words[10];
  STOKER_TRY(check_numbers(cursor));
  return cursor;
}

std::string format_cursor(const Cursor& cursor) {
  const OrderOptions order = as_kept(cursor.order);
  const Json document = {{"version", kVersion},
                         {"shuffle", shuffle_name(order.shuffle)},
                         {"seed", order.seed},
                         {"epoch_samples", order.sample_count},
                         {"block_samples", order.block_samples},
                         {"window_blocks", order.window_blocks},
                         {"lanes", order.lanes},
                         {"deal_samples", order.deal_samples},
                         {"fingerprint", cursor.fingerprint.hex()},
                         {"tail", tail_name(cursor.tail)},
                         {"global_batch_size", cursor.global_batch_size},
                         {"epoch", cursor.epoch},
                         {"position", cursor.position}};
  return document.dump();
}

Result<Cursor> parse_cursor(std::string_view json) {
  STOKER_ASSIGN(const Json document,
                parse_strict_json(json, kWhat,
                                  {.text_bytes_max = 4096, .depth_max = 2, .value_count_max = 64}));
  const JsonView root(document, std::string(kWhat));
  std::uint64_t version = 0;
  STOKER_TRY(read_number(root, "version", version));  // first: a newer one may have other members
  if (version > kVersion) return newer(version);
  if (version == 0) return corrupt("there is no version 0");
  STOKER_TRY(check_members(root));
  Cursor cursor;
  STOKER_TRY(read_name(root, "shuffle", parse_shuffle, cursor.order.shuffle));
  STOKER_TRY(read_number(root, "seed", cursor.order.seed));
  STOKER_TRY(read_number(root, "epoch_samples", cursor.order.sample_count));
  STOKER_TRY(read_number(root, "block_samples", cursor.order.block_samples));
  STOKER_TRY(read_number(root, "window_blocks", cursor.order.window_blocks));
  STOKER_TRY(read_number(root, "lanes", cursor.order.lanes));
  STOKER_TRY(read_number(root, "deal_samples", cursor.order.deal_samples));
  STOKER_TRY(read_fingerprint(root, cursor.fingerprint));
  STOKER_TRY(read_name(root, "tail", parse_tail, cursor.tail));
  STOKER_TRY(read_number(root, "global_batch_size", cursor.global_batch_size));
  STOKER_TRY(read_number(root, "epoch", cursor.epoch));
  STOKER_TRY(read_number(root, "position", cursor.position));
  STOKER_TRY(check_numbers(cursor));
  return cursor;
}

}  // namespace stoker
