/// \file
/// Saves of nodes with private disks (manifest/places.h): who is where, and what retention keeps.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/catalog/catalog.h"
#include "checkpoint/catalog/notes.h"
#include "checkpoint/catalog/retention.h"
#include "checkpoint/save/checkpoint_saver.h"
#include "checkpoint/save/save_messages.h"

namespace stoker {

/// Adds to a message which directory this rank has, and its free space; creates it if missing. Two
/// ranks have the same place if machine, device and inode are the same. So two containers on one
/// machine are two places, if they have directories of their own.
Status introduce(const SaverOptions& options, FileOps& ops, BeginMessage& message);

/// The places of all ranks, numbered by their first ranks.
struct PlaceTable {
  std::vector<std::uint32_t> places;  ///< The place of each rank; empty if there is only one.
  std::vector<std::string> hosts;     ///< Of each place.
  std::vector<std::string> tokens;    ///< Of the lock of each place; empty if it is not held yet.

  bool is_locked() const;
};
/// `token`: of rank 0.
PlaceTable group_places(std::span<const BeginMessage> messages, const std::string& token);

/// `no_space`, naming a node, if one of several places has no room for what its ranks store.
/// `new_bytes`: of each rank. A place whose free space is unknown has room.
Status check_room(const std::string& directory, std::span<const BeginMessage> messages,
                  const PlaceTable& table, std::span<const std::uint64_t> new_bytes);

/// `invalid_argument`, naming two ranks, if only some of them have private disks.
Status check_same_disks(std::span<const BeginMessage> messages);

/// Whether `rank` is the first of its place.
bool leads_place(std::span<const std::uint32_t> places, std::uint32_t rank);

/// `invalid_argument` if the directory of this rank, whose place is not that of rank 0, is the one
/// in which rank 0 has the lock of `table`: it is on a disk that the nodes share.
Status check_not_shared(const SaverOptions& options, FileOps& ops, const Verdict& table,
                        std::uint32_t rank);

// Retention. Pure.

/// Lists the checkpoints of a place.
PlaceReport report_of(const Catalog& catalog, const AllNotes& notes, const RetentionRules& rules);

/// Returns the rules by which rank 0 decides, given the reports of the other places: checkpoints
/// that not all of them have do not count, what one has pinned stays, and what one has annotated
/// has its value.
RetentionRules rules_for_common(RetentionRules rules, const Catalog& catalog,
                                std::span<const PlaceReport> others);
/// Returns the ids of the checkpoints that have none but these names: after a crash one may have a
/// second name, as a superseded checkpoint.
std::vector<std::string> ids_of(const Catalog& catalog, std::span<const std::string> names);
/// Returns what stays in every place: checkpoints that all have, except `drop`, and pinned ones. If
/// a place cannot read some of its checkpoints, what another one has alone stays as well.
/// `reports`: of all places, also that of rank 0, whose catalog it is.
std::vector<std::string> ids_to_keep(const Catalog& catalog, std::span<const std::string> drop,
                                     std::span<const PlaceReport> reports);
/// Returns the rules by which a place decides about what not all places have: its own, except that
/// `keep` stays.
RetentionRules rules_for_rest(RetentionRules rules, const Catalog& catalog,
                              std::span<const std::string> keep);

}  // namespace stoker
