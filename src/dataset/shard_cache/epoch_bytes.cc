#include "dataset/shard_cache/epoch_bytes.h"

#include <fmt/format.h>

#include <algorithm>

#include "stoker/units.h"

namespace stoker {

EpochAnswer expected_bytes(const EpochQuestion& question) {
  EpochAnswer answer;
  const auto dataset = static_cast<double>(question.dataset_bytes);
  const double needed = dataset * question.share;
  const bool fits = question.dataset_bytes <= question.cache_bytes;
  const bool is_random =
      question.shuffle == Shuffle::global || question.shuffle == Shuffle::resampled;
  answer.unit = !fits && is_random ? FetchUnit::records : FetchUnit::chunks;
  // The share of an epoch that is still cached from the one before: the policy keeps as much as
  // there is room for, whatever the order.
  const double kept =
      dataset > 0 ? std::min(1.0, static_cast<double>(question.cache_bytes) / dataset) : 1;
  if (answer.unit == FetchUnit::chunks) {
    // Chunks of random samples: every chunk has some of this machine's share. Blocks are whole.
    const double read = is_random ? dataset : needed;
    answer.first_bytes = static_cast<std::uint64_t>(read);
    // Of data that fits, later epochs read what other machines had before.
    const double missing = fits ? (is_random ? 0 : 1 - question.share) : 1 - kept;
    answer.later_bytes = static_cast<std::uint64_t>(needed * missing);
    return answer;
  }
  const double units =
      static_cast<double>(question.sample_count) * question.share * question.record_unit_bytes;
  // In the first epoch a unit of several samples is met again while it is cached, or not.
  const double fetched = std::max(needed, units * (1 - kept));
  answer.first_bytes = static_cast<std::uint64_t>(fetched);
  answer.later_bytes = static_cast<std::uint64_t>(units * (1 - kept));
  answer.excess = needed > 0 ? std::max(1.0, fetched / needed) : 1;
  return answer;
}

std::string describe(const EpochQuestion& question, const EpochAnswer& answer) {
  std::string text = fmt::format(
      "{} of data, a cache of {}: this machine reads about {} from the source in its first epoch, "
      "and {} in each later one",
      format_bytes(question.dataset_bytes), format_bytes(question.cache_bytes),
      format_bytes(answer.first_bytes), format_bytes(answer.later_bytes));
  if (answer.excess > kBlockOrderPays)
    text += fmt::format(
        ", {:.1f} times the bytes of its samples, which are small; block order reads them once "
        "(shuffle=\"block\")",
        answer.excess);
  return text;
}

}  // namespace stoker
