/// \file
/// The names in a checkpoint directory: formatting and parsing.
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

/// The name of a committed checkpoint's directory.
struct StepName {
  std::uint64_t step = 0;
  /// Set if a rewound run has replaced the checkpoint: `step-N.superseded-<generation>`. 0 if the
  /// manifest could not be read.
  std::optional<std::uint64_t> superseded_generation;
  /// 2 or more if that name was taken: `step-N.superseded-<generation>-2`.
  std::uint32_t superseded_number = 1;

  friend bool operator==(const StepName&, const StepName&) = default;
};

/// "step-000000001000", with more digits if twelve are not enough.
std::string step_name(std::uint64_t step);
std::string step_name(const StepName& name);
std::string superseded_name(std::uint64_t step, std::uint64_t generation, std::uint32_t number = 1);
/// Returns nothing unless step_name() of the result is `name`.
std::optional<StepName> parse_step_name(std::string_view name);

/// The greatest epoch that has a name.
inline constexpr std::uint64_t kEpochMax = std::uint64_t{1} << 53;
/// ".lock-7": names the writer of epoch 7.
std::string epoch_name(std::uint64_t epoch);
std::optional<std::uint64_t> parse_epoch_name(std::string_view name);
/// ".lock-claim-<token>": a private file that becomes an epoch by link(2).
std::string epoch_claim_name(std::string_view token);
bool is_epoch_claim_name(std::string_view name) noexcept;

/// ".meeting-<word>": where ranks exchange messages.
std::string meeting_name(std::string_view word);
bool is_meeting_name(std::string_view name) noexcept;

/// "owner-<token>": the writer's own directory, which readers ignore.
std::string owner_name(std::string_view token);
bool is_owner_name(std::string_view name) noexcept;

// Names in the owner's directory. Entries moved from another owner's directory end with
// "~<unique>".

/// The name to which a rank that abandons a save renames its staging directory.
std::string abandoned_name(std::string_view staging);

/// The name of a committed checkpoint that was put aside in the owner's directory.
struct AsideName {
  /// `retire`: to be removed, unless a note keeps it. `keep`: superseded, and to be published
  /// under the name of a superseded checkpoint.
  enum class Purpose : std::uint8_t { retire, keep };
  Purpose purpose = Purpose::retire;
  StepName step;
  std::uint64_t generation = 0;

  friend bool operator==(const AsideName&, const AsideName&) = default;
};
/// "retire-000000000010-7", "keep-000000000010-7"; for a superseded checkpoint
/// "retire-000000000010.superseded-3-3".
std::string aside_name(const AsideName& name);
std::optional<AsideName> parse_aside_name(std::string_view name);

/// "remove-<unique>": may be removed at any time; nothing else may.
std::string remove_name(std::string_view unique);
/// "taken-<unique>": formerly another owner's directory.
std::string taken_name(std::string_view unique);
bool is_taken_name(std::string_view name) noexcept;
/// Returns the name of an entry after it was moved from one owner's directory to another's.
std::string moved_name(std::string_view name, std::string_view unique);

/// ".trash-...": being removed by version 0.1.
bool is_trash_name(std::string_view name) noexcept;

/// "rank-00003.safetensors"; for a group of tensors that did not change
/// "rank-00003-group-000.safetensors".
std::string rank_file_name(std::uint32_t rank);
std::string group_file_name(std::uint32_t rank, std::uint32_t group);
/// "rank-00003.part.json"
std::string part_name(std::uint32_t rank);
/// "place-00001": an empty file that says which node's files a checkpoint directory has.
std::string place_name(std::uint32_t place);
std::optional<std::uint32_t> parse_place_name(std::string_view name);

/// "rank-00003.model.weight": a tensor that belongs to one rank.
std::string rank_tensor_name(std::uint32_t rank, std::string_view name);
/// Returns the beginning of such a name, "rank-00003."; empty if it is no such name.
std::string_view rank_prefix_of(std::string_view tensor_name);

/// "notes/step-000000001000.json", relative to the checkpoint directory.
std::string note_path(std::uint64_t step);

}  // namespace stoker
