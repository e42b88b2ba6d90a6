#include "dataset/order/sample_split.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace stoker {
namespace {

Status invalid(std::string message) {
  return Status(Code::invalid_argument, std::move(message));
}

std::uint64_t mix(std::uint64_t value) noexcept {
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
  return value ^ (value >> 31);
}

Result<std::vector<std::uint64_t>> part_counts(std::span<const double> parts, std::uint64_t total) {
  const bool are_positive =
      std::ranges::all_of(parts, [](double part) { return part >= 0 && std::isfinite(part); });
  if (parts.empty() || !are_positive)
    return invalid(fmt::format("parts are fractions or counts, none negative, not {}", parts));
  const double sum = std::accumulate(parts.begin(), parts.end(), 0.0);
  std::vector<std::uint64_t> counts;
  if (std::ranges::all_of(parts, [](double part) { return part == std::floor(part); }) &&
      sum == static_cast<double>(total)) {
    for (const double part : parts) counts.push_back(static_cast<std::uint64_t>(part));
    return counts;
  }
  if (std::abs(sum - 1) > 1e-6)
    return invalid(
        fmt::format("parts sum to {}: fractions sum to 1, counts to the dataset's {}", sum, total));
  double until = 0;
  std::uint64_t begin = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    until += parts[i];
    const double end = std::floor(until * static_cast<double>(total) + 0.5);
    const std::uint64_t stop =
        i + 1 == parts.size()
            ? total
            : std::clamp<std::uint64_t>(static_cast<std::uint64_t>(end), begin, total);
    counts.push_back(stop - begin);
    begin = stop;
  }
  return counts;
}

}  // namespace

std::uint64_t selected_sample(const Selection& selection, std::uint64_t number) noexcept {
  if (const auto* list = std::get_if<std::vector<std::uint64_t>>(&selection))
    return (*list)[number];
  const auto& slice = *std::get_if<SampleSlice>(&selection);
  return slice.first + number * static_cast<std::uint64_t>(slice.step);  // modulo 2^64, also if < 0
}

std::optional<std::uint64_t> find_selected(const Selection& selection,
                                           std::uint64_t sample) noexcept {
  if (const auto* list = std::get_if<std::vector<std::uint64_t>>(&selection)) {
    const auto found = std::ranges::find(*list, sample);
    if (found == list->end()) return std::nullopt;
    return static_cast<std::uint64_t>(found - list->begin());
  }
  const auto& slice = *std::get_if<SampleSlice>(&selection);
  const bool is_back = slice.step < 0;
  if (is_back ? sample > slice.first : sample < slice.first) return std::nullopt;
  const std::uint64_t distance = is_back ? slice.first - sample : sample - slice.first;
  const auto step = static_cast<std::uint64_t>(is_back ? -slice.step : slice.step);
  if (step == 0 || distance % step != 0 || distance / step >= slice.count) return std::nullopt;
  return distance / step;
}

Result<Selection> select_from(const Selection& selection, std::uint64_t count,
                              std::span<const std::uint64_t> numbers) {
  std::vector<std::uint64_t> samples;
  samples.reserve(numbers.size());
  for (const std::uint64_t number : numbers) {
    if (number >= count) return invalid(fmt::format("sample {} of a dataset of {}", number, count));
    samples.push_back(selected_sample(selection, number));
  }
  return Selection(std::move(samples));
}

Selection slice_of(const Selection& selection, std::uint64_t first, std::uint64_t count) {
  if (const auto* list = std::get_if<std::vector<std::uint64_t>>(&selection)) {
    const auto begin = list->begin() + static_cast<std::ptrdiff_t>(first);
    return std::vector<std::uint64_t>(begin, begin + static_cast<std::ptrdiff_t>(count));
  }
  const auto& slice = *std::get_if<SampleSlice>(&selection);
  return SampleSlice{.first = count == 0 ? 0 : selected_sample(selection, first),
                     .step = slice.step,
                     .count = count};
}

Result<std::vector<Selection>> split_selection(const Selection& selection, std::uint64_t count,
                                               std::span<const double> parts,
                                               std::optional<std::uint64_t> seed) {
  STOKER_ASSIGN(const std::vector<std::uint64_t> counts, part_counts(parts, count));
  std::vector<Selection> out;
  std::uint64_t begin = 0;
  if (!seed) {
    for (const std::uint64_t part : counts) {
      out.push_back(slice_of(selection, begin, part));
      begin += part;
    }
    return out;
  }
  const std::uint64_t start = mix(*seed);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> order(count);  // hash and item
  for (std::uint64_t i = 0; i < count; ++i) order[i] = {mix(start + i * 0x9E3779B97F4A7C15), i};
  std::ranges::sort(order);
  for (const std::uint64_t part : counts) {
    std::vector<std::uint64_t> items;
    for (std::uint64_t i = begin; i < begin + part; ++i) items.push_back(order[i].second);
    std::ranges::sort(items);
    for (std::uint64_t& item : items) item = selected_sample(selection, item);
    out.emplace_back(std::move(items));
    begin += part;
  }
  return out;
}

}  // namespace stoker
