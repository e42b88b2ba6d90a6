#include "checkpoint/manifest/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace stoker {
namespace {

constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kSupersededMark = ".superseded-";
constexpr std::string_view kOwnerPrefix = "owner-";
constexpr std::string_view kTrashPrefix = ".trash-";
constexpr std::string_view kEpochPrefix = ".lock-";
constexpr std::string_view kClaimPrefix = ".lock-claim-";
constexpr std::string_view kMeetingPrefix = ".meeting-";
constexpr std::string_view kRetirePrefix = "retire-";
constexpr std::string_view kKeepPrefix = "keep-";
constexpr std::string_view kRemovePrefix = "remove-";
constexpr std::string_view kTakenPrefix = "taken-";
constexpr std::string_view kPlacePrefix = "place-";
constexpr char kMovedMark = '~';
/// Largest generation in a name. Stoker writes none above it, and one more must not overflow.
constexpr std::uint64_t kCountMax = std::uint64_t{1} << 53;

template <typename Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value = 0;
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto [stop, error] = std::from_chars(begin, end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

}  // namespace

std::string step_name(std::uint64_t step) {
  return fmt::format("{}{:012}", kStepPrefix, step);
}

std::string superseded_name(std::uint64_t step, std::uint64_t generation, std::uint32_t number) {
  std::string name = fmt::format("{}{}{}", step_name(step), kSupersededMark, generation);
  return number == 1 ? name : fmt::format("{}-{}", name, number);
}

std::string step_name(const StepName& name) {
  return name.superseded_generation
             ? superseded_name(name.step, *name.superseded_generation, name.superseded_number)
             : step_name(name.step);
}

std::optional<StepName> parse_step_name(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  StepName parsed;
  const std::size_t mark = name.find(kSupersededMark);
  const std::size_t digits_end = mark == std::string_view::npos ? name.size() : mark;
  const auto step =
      parse_number<std::uint64_t>(name.substr(kStepPrefix.size(), digits_end - kStepPrefix.size()));
  if (!step) return std::nullopt;
  parsed.step = *step;
  if (mark != std::string_view::npos) {
    const std::string_view rest = name.substr(mark + kSupersededMark.size());
    const std::size_t dash = std::min(rest.find('-'), rest.size());
    parsed.superseded_generation = parse_number<std::uint64_t>(rest.substr(0, dash));
    if (!parsed.superseded_generation || *parsed.superseded_generation > kCountMax)
      return std::nullopt;
    if (dash < rest.size()) {
      const auto number = parse_number<std::uint32_t>(rest.substr(dash + 1));
      if (!number) return std::nullopt;
      parsed.superseded_number = *number;
    }
  }
  // A checkpoint has only one name: "step-1" or "step-0000000000001" would be a second one.
  if (step_name(parsed) != name) return std::nullopt;
  return parsed;
}

std::string epoch_name(std::uint64_t epoch) {
  return fmt::format("{}{}", kEpochPrefix, epoch);
}

std::optional<std::uint64_t> parse_epoch_name(std::string_view name) {
  if (!name.starts_with(kEpochPrefix)) return std::nullopt;
  const auto epoch = parse_number<std::uint64_t>(name.substr(kEpochPrefix.size()));
  return epoch && *epoch <= kEpochMax && epoch_name(*epoch) == name ? epoch : std::nullopt;
}

std::string epoch_claim_name(std::string_view token) {
  return fmt::format("{}{}", kClaimPrefix, token);
}

bool is_epoch_claim_name(std::string_view name) noexcept {
  return name.starts_with(kClaimPrefix);
}

std::string meeting_name(std::string_view word) {
  return fmt::format("{}{}", kMeetingPrefix, word);
}

bool is_meeting_name(std::string_view name) noexcept {
  return name.starts_with(kMeetingPrefix) && name.size() > kMeetingPrefix.size();
}

std::string owner_name(std::string_view token) {
  return fmt::format("{}{}", kOwnerPrefix, token);
}

bool is_owner_name(std::string_view name) noexcept {
  return name.starts_with(kOwnerPrefix) && name.size() > kOwnerPrefix.size();
}

std::string abandoned_name(std::string_view staging) {
  return fmt::format("{}.abandoned", staging);
}

std::string aside_name(const AsideName& name) {
  return fmt::format("{}{}-{}",
                     name.purpose == AsideName::Purpose::retire ? kRetirePrefix : kKeepPrefix,
                     step_name(name.step).substr(kStepPrefix.size()), name.generation);
}

std::optional<AsideName> parse_aside_name(std::string_view name) {
  name = name.substr(0, name.find(kMovedMark));
  AsideName parsed;
  const bool is_keep = name.starts_with(kKeepPrefix);
  if (!is_keep && !name.starts_with(kRetirePrefix)) return std::nullopt;
  parsed.purpose = is_keep ? AsideName::Purpose::keep : AsideName::Purpose::retire;
  name.remove_prefix(is_keep ? kKeepPrefix.size() : kRetirePrefix.size());
  const std::size_t dash = name.rfind('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto generation = parse_number<std::uint64_t>(name.substr(dash + 1));
  const auto step = parse_step_name(fmt::format("{}{}", kStepPrefix, name.substr(0, dash)));
  if (!generation || *generation > kCountMax || !step) return std::nullopt;
  parsed.step = *step;
  parsed.generation = *generation;
  return parsed;
}

std::string remove_name(std::string_view unique) {
  return fmt::format("{}{}", kRemovePrefix, unique);
}

std::string taken_name(std::string_view unique) {
  return fmt::format("{}{}", kTakenPrefix, unique);
}

bool is_taken_name(std::string_view name) noexcept {
  return name.starts_with(kTakenPrefix);
}

std::string moved_name(std::string_view name, std::string_view unique) {
  return fmt::format("{}{}{}", name.substr(0, name.find(kMovedMark)), kMovedMark, unique);
}

bool is_trash_name(std::string_view name) noexcept {
  return name.starts_with(kTrashPrefix);
}

std::string rank_file_name(std::uint32_t rank) {
  return fmt::format("rank-{:05}.safetensors", rank);
}

std::string group_file_name(std::uint32_t rank, std::uint32_t group) {
  return fmt::format("rank-{:05}-group-{:03}.safetensors", rank, group);
}

std::string rank_tensor_name(std::uint32_t rank, std::string_view name) {
  return fmt::format("rank-{:05}.{}", rank, name);
}

std::string_view rank_prefix_of(std::string_view tensor_name) {
  constexpr std::string_view kBegin = "rank-";
  constexpr std::size_t kDigitsMin = 5;
  if (!tensor_name.starts_with(kBegin)) return {};
  const std::size_t end = tensor_name.find_first_not_of("0123456789", kBegin.size());
  if (end == std::string_view::npos || end < kBegin.size() + kDigitsMin) return {};
  return tensor_name[end] == '.' ? tensor_name.substr(0, end + 1) : std::string_view();
}

std::string part_name(std::uint32_t rank) {
  return fmt::format("rank-{:05}.part.json", rank);
}

std::string place_name(std::uint32_t place) {
  return fmt::format("{}{:05}", kPlacePrefix, place);
}

std::optional<std::uint32_t> parse_place_name(std::string_view name) {
  if (!name.starts_with(kPlacePrefix)) return std::nullopt;
  const auto place = parse_number<std::uint32_t>(name.substr(kPlacePrefix.size()));
  return place && place_name(*place) == name ? place : std::nullopt;
}

std::string note_path(std::uint64_t step) {
  return fmt::format("{}/{}.json", kNotesName, step_name(step));
}

}  // namespace stoker
