#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "stoker/cursor.h"

namespace stoker {
namespace {

constexpr std::array<std::string_view, 3> kMayBeAllowed = {"global_batch_size", "tail",
                                                           "fingerprint"};

bool is_among(std::string_view name, std::span<const std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

/// Collects the fields that differ.
///
/// Thread safety: none.
class Comparison {
 public:
  void text(std::string_view field, std::string_view was, std::string_view is) {
    if (was != is)
      found_.push_back({field, std::string(was), std::string(is), is_among(field, kMayBeAllowed)});
  }
  void number(std::string_view field, std::uint64_t was, std::uint64_t is) {
    text(field, std::to_string(was), std::to_string(is));
  }
  /// For numbers that are 0 in the run if it takes them from the cursor.
  void requested(std::string_view field, std::uint64_t was, std::uint64_t is) {
    if (is != 0) number(field, was, is);
  }
  std::vector<CursorDifference> take() && { return std::move(found_); }

 private:
  std::vector<CursorDifference> found_;
};

}  // namespace

std::span<const std::string_view> cursor_fields_that_may_be_allowed() noexcept {
  return kMayBeAllowed;
}

std::vector<CursorDifference> compare_cursor(const Cursor& cursor, const Cursor& run) {
  Comparison compare;
  compare.text("shuffle", shuffle_name(cursor.order.shuffle), shuffle_name(run.order.shuffle));
  compare.number("seed", cursor.order.seed, run.order.seed);
  compare.number("epoch_samples", cursor.order.sample_count, run.order.sample_count);
  if (cursor.order.shuffle == Shuffle::block && run.order.shuffle == Shuffle::block) {
    compare.requested("block_samples", cursor.order.block_samples, run.order.block_samples);
    compare.requested("window_blocks", cursor.order.window_blocks, run.order.window_blocks);
    compare.requested("lanes", cursor.order.lanes, run.order.lanes);
    compare.requested("deal_samples", cursor.order.deal_samples, run.order.deal_samples);
  }
  compare.text("fingerprint", cursor.fingerprint.hex(), run.fingerprint.hex());
  compare.text("tail", tail_name(cursor.tail), tail_name(run.tail));
  compare.number("global_batch_size", cursor.global_batch_size, run.global_batch_size);
  return std::move(compare).take();
}

Status check_cursor(const Cursor& cursor, const Cursor& run,
                    std::span<const std::string_view> allow) {
  for (const std::string_view name : allow)
    if (!is_among(name, kMayBeAllowed))
      return Status(Code::invalid_argument,
                    fmt::format("cursor: '{}' cannot be allowed to differ; these can: {}", name,
                                fmt::join(kMayBeAllowed, ", ")));
  std::string message;
  bool some_may = false;
  bool all_may = true;
  for (const CursorDifference& difference : compare_cursor(cursor, run)) {
    if (is_among(difference.field, allow)) continue;
    message += fmt::format("{}{} was {} and is {}{}", message.empty() ? "" : "; ", difference.field,
                           difference.was, difference.is,
                           difference.may_be_allowed ? " (may be allowed)" : "");
    some_may = some_may || difference.may_be_allowed;
    all_may = all_may && difference.may_be_allowed;
  }
  if (message.empty()) return {};
  const std::string_view advice =
      all_may    ? ""
      : some_may ? "; the others cannot be allowed: they change the order"
                 : "; this changes the order, so the saved position is meaningless";
  return Status(
      Code::invalid_argument,
      fmt::format("the saved loader position does not fit this loader: {}{}", message, advice));
}

}  // namespace stoker
