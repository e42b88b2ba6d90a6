#include "checkpoint/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace stoker {
namespace {

constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kSupersededMark = ".superseded-";
constexpr std::string_view kOwnerPrefix = "owner-";
constexpr std::string_view kTrashPrefix = ".trash-";

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
    if (!parsed.superseded_generation) return std::nullopt;
    if (dash < rest.size()) {
      const auto number = parse_number<std::uint32_t>(rest.substr(dash + 1));
      if (!number) return std::nullopt;
      parsed.superseded_number = *number;
    }
  }
  // One checkpoint has one name: "step-1" or "step-0000000000001" would be a second one.
  const std::string canonical =
      parsed.superseded_generation
          ? superseded_name(parsed.step, *parsed.superseded_generation, parsed.superseded_number)
          : step_name(parsed.step);
  if (canonical != name) return std::nullopt;
  return parsed;
}

std::string owner_name(std::string_view token) {
  return fmt::format("{}{}", kOwnerPrefix, token);
}

bool is_owner_name(std::string_view name) noexcept {
  return name.starts_with(kOwnerPrefix) && name.size() > kOwnerPrefix.size();
}

std::string given_up_name(std::string_view staging) {
  return fmt::format("{}.given-up", staging);
}

std::string trash_name(std::string_view what, std::string_view unique) {
  return fmt::format("{}{}-{}", kTrashPrefix, what, unique);
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

std::string part_name(std::uint32_t rank) {
  return fmt::format("rank-{:05}.part.json", rank);
}

std::string note_path(std::uint64_t step) {
  return fmt::format("{}/{}.json", kNotesName, step_name(step));
}

}  // namespace stoker
