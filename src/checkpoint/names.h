/// \file
/// The names in a checkpoint directory, made and read in one place.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "formats/plain_name.h"  // kManifestName

namespace stoker {

inline constexpr std::string_view kLatestName = "latest";
inline constexpr std::string_view kNotesName = "notes";
inline constexpr std::string_view kLockName = ".lock";

/// A directory that holds a committed checkpoint.
struct StepName {
  std::uint64_t step = 0;
  /// Set on one that a rewound run has replaced: `step-N.superseded-<generation>`.
  std::optional<std::uint64_t> superseded_generation;
  /// From 2 on where that name was taken: `step-N.superseded-<generation>-2`. So it is with
  /// generation 0, which stands for all whose manifest could not be read.
  std::uint32_t superseded_number = 1;

  friend bool operator==(const StepName&, const StepName&) = default;
};

/// "step-000000001000", or with more digits where twelve do not suffice.
std::string step_name(std::uint64_t step);
std::string superseded_name(std::uint64_t step, std::uint64_t generation, std::uint32_t number = 1);
/// Nothing for any other name, and for one that step_name() would write otherwise.
std::optional<StepName> parse_step_name(std::string_view name);

/// "owner-<token>": staging, which readers never look at.
std::string owner_name(std::string_view token);
bool is_owner_name(std::string_view name) noexcept;
/// Where a rank that gives a save up puts its staging directory: beside it, in the owner's.
std::string given_up_name(std::string_view staging);

/// ".trash-...": on its way out.
std::string trash_name(std::string_view what, std::string_view unique);
bool is_trash_name(std::string_view name) noexcept;

/// "rank-00003.safetensors"; of a group of tensors that did not change
/// "rank-00003-group-000.safetensors".
std::string rank_file_name(std::uint32_t rank);
std::string group_file_name(std::uint32_t rank, std::uint32_t group);
/// "rank-00003.part.json"
std::string part_name(std::uint32_t rank);

/// "notes/step-000000001000.json", relative to the checkpoint directory.
std::string note_path(std::uint64_t step);

}  // namespace stoker
