#include "stoker/ranks.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "api/border.h"

namespace stoker {
namespace {

using internal::invalid;

struct Launcher {
  const char* rank;
  const char* world_size;
};

// python/stoker/_common/ranks.py has the same.
constexpr std::array kLaunchers = {Launcher{"RANK", "WORLD_SIZE"},
                                   Launcher{"SLURM_PROCID", "SLURM_NTASKS"},
                                   Launcher{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}};
constexpr std::array kLocalSizes = {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
                                    "SLURM_TASKS_PER_NODE"};

std::optional<std::string> find(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): as documented
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

Result<std::uint64_t> number(const char* name, const std::string& text) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || at != end)
    return invalid(std::string(name) + "=" + text + " is not a number");
  return value;
}

/// Only for RANK and WORLD_SIZE: SLURM also sets the number of tasks in the process that starts
/// them.
Status refuse_half_a_pair() {
  const std::optional<std::string> rank = find("RANK");
  const std::optional<std::string> world_size = find("WORLD_SIZE");
  if (rank.has_value() == world_size.has_value()) return {};
  if (world_size) {
    STOKER_ASSIGN(const std::uint64_t size, number("WORLD_SIZE", *world_size));
    if (size == 1) return {};
  }
  return invalid(rank ? "RANK=" + *rank + " is set and WORLD_SIZE is not: set both, or neither"
                      : "WORLD_SIZE=" + *world_size +
                            " is set and RANK is not: set both, or neither");
}

std::uint64_t local_world_size(std::uint64_t world_size) {
  for (const char* const name : kLocalSizes) {
    const std::optional<std::string> text = find(name);
    std::uint64_t value = 0;  // SLURM's may be "4(x2),3"
    if (!text ||
        std::from_chars(text->data(), text->data() + text->size(), value).ec != std::errc() ||
        value == 0)
      continue;
    return std::min(value, world_size);
  }
  return 1;
}

Result<Ranks> discover() {
  Ranks ranks;
  bool is_found = false;
  for (const Launcher& launcher : kLaunchers) {
    const std::optional<std::string> rank = find(launcher.rank);
    const std::optional<std::string> world_size = find(launcher.world_size);
    if (!rank || !world_size) continue;
    STOKER_ASSIGN(ranks.rank, number(launcher.rank, *rank));
    STOKER_ASSIGN(ranks.world_size, number(launcher.world_size, *world_size));
    is_found = true;
    break;
  }
  if (!is_found) STOKER_TRY(refuse_half_a_pair());
  if (ranks.rank >= ranks.world_size)
    return invalid("rank " + std::to_string(ranks.rank) + " of " +
                   std::to_string(ranks.world_size) + ": ranks count from 0");
  ranks.local_world_size = local_world_size(ranks.world_size);
  return ranks;
}

}  // namespace

Result<Ranks> Ranks::from_environment() {
  return internal::at_border([] { return discover(); });
}

}  // namespace stoker
