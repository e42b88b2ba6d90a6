#include "checkpoint/save/save_places.h"

#include <algorithm>
#include <map>
#include <set>

#include "checkpoint/directory/checkpoint_directory.h"
#include "checkpoint/directory/lock_record.h"
#include "checkpoint/manifest/names.h"
#include "checkpoint/save/save_leader.h"

namespace stoker {
namespace {

std::string id_of(const CatalogStep& step) {
  return checkpoint_id(step.summary->generation, step.summary->line);
}

/// Whether every place has the checkpoint.
bool is_common(const std::string& id, std::span<const std::set<std::string>> others) {
  return std::ranges::all_of(others, [&](const auto& ids) { return ids.contains(id); });
}

std::vector<std::set<std::string>> sets_of(std::span<const PlaceReport> reports) {
  std::vector<std::set<std::string>> ids;
  for (const PlaceReport& report : reports)
    ids.emplace_back(report.steps.begin(), report.steps.end());
  return ids;
}

}  // namespace

Status introduce(const SaverOptions& options, FileOps& ops, BeginMessage& message) {
  const Machine machine = options.lock.machine.value_or(this_machine());
  STOKER_ASSIGN(const CheckpointDirectory directory,
                CheckpointDirectory::make(ops, options.directory));
  STOKER_ASSIGN(const FileInfo info, ops.info_of(directory.self()));
  message.place =
      machine.boot_id + " " + std::to_string(info.device) + " " + std::to_string(info.inode);
  message.host = machine.host;
  const Result<std::uint64_t> free =
      options.free_bytes ? options.free_bytes(options.directory) : directory.free_bytes();
  message.free_bytes = free.ok() ? *free : kUnknownBytes;
  return {};
}

bool PlaceTable::is_locked() const {
  return std::ranges::none_of(tokens, &std::string::empty);
}

PlaceTable group_places(std::span<const BeginMessage> messages, const std::string& token) {
  PlaceTable table;
  std::map<std::string_view, std::uint32_t> numbers;
  for (const BeginMessage& message : messages) {
    const auto [found, is_new] =
        numbers.emplace(message.place, static_cast<std::uint32_t>(numbers.size()));
    table.places.push_back(found->second);
    if (!is_new) continue;
    table.hosts.push_back(message.host);
    table.tokens.push_back(&message == messages.data() ? token : message.token);
  }
  return numbers.size() == 1 ? PlaceTable() : table;
}

Status check_room(const std::string& directory, std::span<const BeginMessage> messages,
                  const PlaceTable& table, std::span<const std::uint64_t> new_bytes) {
  struct Room {
    std::uint64_t new_bytes = 0;
    std::uint64_t unreserved_bytes = 0;
    std::uint64_t free_bytes = kUnknownBytes;
  };
  std::vector<Room> rooms(table.hosts.size());
  for (std::size_t rank = 0; rank < table.places.size(); ++rank) {
    Room& room = rooms[table.places[rank]];
    room.new_bytes += new_bytes[rank];
    room.unreserved_bytes += messages[rank].unreserved_bytes;
    room.free_bytes = std::min(room.free_bytes, messages[rank].free_bytes);
  }
  for (std::size_t place = 0; place < rooms.size(); ++place)
    STOKER_TRY(check_space(directory + " on " + table.hosts[place], rooms[place].new_bytes,
                           rooms[place].unreserved_bytes, rooms[place].free_bytes));
  return {};
}

Status check_same_disks(std::span<const BeginMessage> messages) {
  const bool is_private = !messages.front().place.empty();
  for (std::size_t rank = 1; rank < messages.size(); ++rank)
    if (messages[rank].place.empty() == is_private)
      return {Code::invalid_argument, "only one of the ranks 0 and " + std::to_string(rank) +
                                          " has disks=\"private\": it must be the same on all"};
  return {};
}

bool leads_place(std::span<const std::uint32_t> places, std::uint32_t rank) {
  return !places.empty() &&
         std::ranges::find(places, places[rank]) - places.begin() == static_cast<int>(rank);
}

Status check_not_shared(const SaverOptions& options, FileOps& ops, const Verdict& table,
                        std::uint32_t rank) {
  if (table.places.empty() || table.places[rank] == table.places.front()) return {};
  STOKER_ASSIGN(const CheckpointDirectory directory,
                CheckpointDirectory::open(ops, options.directory));
  const PathAt owner = directory.at(owner_name(table.tokens.front()));
  if (!ops.info_of(owner).ok()) return {};
  return {Code::invalid_argument,
          options.directory +
              ": private disks were asked for (disks=\"private\"), but it is one directory, which "
              "this node shares with that of rank 0, whose " +
              owner.text() +
              " is here. Use disks=\"shared\", or a directory on a disk of the node"};
}

PlaceReport report_of(const Catalog& catalog, const AllNotes& notes, const RetentionRules& rules) {
  PlaceReport report{.has_rules = true};
  for (const CatalogStep& step : catalog.steps) {
    if (!step.is_valid()) {
      report.has_invalid = true;
      continue;
    }
    report.steps.push_back(id_of(step));
    const CheckpointNote* const note = notes.find(step.parsed.step, step.generation);
    if ((note != nullptr && note->is_pinned) || notes.is_damaged(step.parsed.step))
      report.pinned.push_back(id_of(step));
    if (!rules.keep_best || note == nullptr || !note->is_about(step.summary->line)) continue;
    const auto value = note->values.find(rules.keep_best->metric);
    if (value == note->values.end()) continue;
    report.valued.push_back(id_of(step));
    report.values.push_back(value->second);
  }
  return report;
}

RetentionRules rules_for_common(RetentionRules rules, const Catalog& catalog,
                                std::span<const PlaceReport> others) {
  const std::vector<std::set<std::string>> ids = sets_of(others);
  std::set<std::string> pinned;
  std::map<std::string, double> values;  // of several places the first has its way
  for (const PlaceReport& other : others) {
    pinned.insert(other.pinned.begin(), other.pinned.end());
    for (std::size_t i = 0; i < other.valued.size(); ++i)
      values.emplace(other.valued[i], other.values[i]);
  }
  const CatalogStep* const newest = catalog.newest();  // just committed in all places
  for (const CatalogStep& step : catalog.steps) {
    if (!step.is_valid()) continue;
    if (const auto value = values.find(id_of(step)); value != values.end())
      rules.values[{step.generation, step.summary->line}] = value->second;
    if (&step == newest) continue;
    if (!is_common(id_of(step), ids) || pinned.contains(id_of(step)))
      rules.damaged.insert(step.generation);
  }
  return rules;
}

std::vector<std::string> ids_of(const Catalog& catalog, std::span<const std::string> names) {
  const std::set<std::string_view> wanted(names.begin(), names.end());
  std::set<std::string> ids;
  for (const CatalogStep& step : catalog.steps)
    if (step.is_valid() && wanted.contains(step.name)) ids.insert(id_of(step));
  for (const CatalogStep& step : catalog.steps)
    if (step.is_valid() && !wanted.contains(step.name)) ids.erase(id_of(step));
  return {ids.begin(), ids.end()};
}

std::vector<std::string> ids_to_keep(const Catalog& catalog, std::span<const std::string> drop,
                                     std::span<const PlaceReport> reports) {
  const std::vector<std::set<std::string>> ids = sets_of(reports);
  const bool keeps_partial = std::ranges::any_of(reports, &PlaceReport::has_invalid);
  std::set<std::string> kept;
  for (const CatalogStep& step : catalog.steps)
    if (step.is_valid() && (keeps_partial || is_common(id_of(step), ids))) kept.insert(id_of(step));
  for (const PlaceReport& report : reports) {
    kept.insert(report.pinned.begin(), report.pinned.end());
    if (keeps_partial) kept.insert(report.steps.begin(), report.steps.end());
  }
  for (const std::string& id : drop) kept.erase(id);
  return {kept.begin(), kept.end()};
}

RetentionRules rules_for_rest(RetentionRules rules, const Catalog& catalog,
                              std::span<const std::string> keep) {
  const std::set<std::string> kept(keep.begin(), keep.end());
  for (const CatalogStep& step : catalog.steps)
    if (step.is_valid() && kept.contains(id_of(step)))
      rules.replicating.push_back(step.name);  // which stays, and counts
  return rules;
}

}  // namespace stoker
