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
inline constexpr std::string_view kCatalogName = ".catalog";

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
std::string step_name(const StepName& name);
std::string superseded_name(std::uint64_t step, std::uint64_t generation, std::uint32_t number = 1);
/// Nothing for any other name, and for one that step_name() would write otherwise.
std::optional<StepName> parse_step_name(std::string_view name);

/// The greatest epoch that has a name.
inline constexpr std::uint64_t kEpochMax = std::uint64_t{1} << 53;
/// ".lock-7": says who has been the writer since the seventh takeover.
std::string epoch_name(std::uint64_t epoch);
std::optional<std::uint64_t> parse_epoch_name(std::string_view name);
/// ".lock-claim-<token>": becomes an epoch by link(2).
std::string epoch_claim_name(std::string_view token);
bool is_epoch_claim_name(std::string_view name) noexcept;

/// ".meeting-<word>": where ranks talk.
std::string meeting_name(std::string_view word);
bool is_meeting_name(std::string_view name) noexcept;

/// "owner-<token>": the writer's own, which readers never look at.
std::string owner_name(std::string_view token);
bool is_owner_name(std::string_view name) noexcept;

// In the owner's directory. What was moved there from another owner's has "~<unique>" behind its
// name.

/// Where a rank that abandons a save puts its staging directory: beside it.
std::string abandoned_name(std::string_view staging);

/// A committed checkpoint that was put into the owner's directory.
struct AsideName {
  /// `retire`: it is to be removed, unless a note says otherwise. `keep`: it was superseded, and
  /// gets its name for that.
  enum class Purpose : std::uint8_t { retire, keep };
  Purpose purpose = Purpose::retire;
  StepName step;
  std::uint64_t generation = 0;

  friend bool operator==(const AsideName&, const AsideName&) = default;
};
/// "retire-000000000010-7", "keep-000000000010-7"; of one that was superseded before
/// "retire-000000000010.superseded-3-3".
std::string aside_name(const AsideName& name);
std::optional<AsideName> parse_aside_name(std::string_view name);

/// "remove-<unique>": may be removed at any time; nothing else may.
std::string remove_name(std::string_view unique);
/// "taken-<unique>": was another owner's directory.
std::string taken_name(std::string_view unique);
bool is_taken_name(std::string_view name) noexcept;
/// `name` as it is called after it was moved from one owner's directory to another's.
std::string moved_name(std::string_view name, std::string_view unique);

/// ".trash-...": on its way out. Version 0.1 made them.
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
