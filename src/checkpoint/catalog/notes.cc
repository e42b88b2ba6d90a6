#include "checkpoint/catalog/notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <iterator>
#include <optional>
#include <utility>

#include "checkpoint/catalog/catalog.h"
#include "checkpoint/manifest/manifest_json.h"
#include "checkpoint/manifest/names.h"
#include "checkpoint/manifest/sealed_json.h"
#include "formats/json/strict_json.h"
#include "formats/utf8.h"

namespace stoker {
namespace {

constexpr std::size_t kValueNameBytesMax = 256;
constexpr std::uint64_t kNotesMajor = 1;

Result<CheckpointNote> parse_note(const JsonView& view) {
  CheckpointNote note;
  STOKER_ASSIGN(const JsonView pinned, view.at("pinned"));
  if (!pinned.value().is_boolean()) return pinned.corrupt("neither true nor false");
  note.is_pinned = pinned.value().get_bool();
  STOKER_ASSIGN(const JsonView values, view.at("values"));
  STOKER_ASSIGN(note.values, internal::doubles_of(values));
  STOKER_ASSIGN(note.line, internal::line_at(view));
  return note;
}

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// Whether a later change of the file would change its modification time. Filesystem clocks tick in
/// milliseconds, and inodes are reused, so younger files are read again.
bool is_settled(const FileInfo& file) {
  constexpr nanoseconds kTick = std::chrono::seconds(2);
  const nanoseconds now = std::chrono::system_clock::now().time_since_epoch();
  return nanoseconds(file.modified_ns) + kTick < now;
}

/// The checkpoint that a note is about.
struct NotedCheckpoint {
  std::uint64_t step = 0;
  std::uint64_t generation = 0;
  std::string line = {};
};

/// Looks for the checkpoint, also among superseded ones; `not_found` if it is gone. Without a line
/// any checkpoint of that generation counts.
Status find_checkpoint(const CheckpointStore& store, const NotedCheckpoint& wanted) {
  CatalogReader reader(store);
  for (;;) {  // ends: a forgotten manifest is read
    STOKER_ASSIGN(const Catalog catalog, reader.list());
    const auto found = std::ranges::find_if(catalog.steps, [&](const CatalogStep& there) {
      return there.is_valid() && there.parsed.step == wanted.step &&
             there.generation == wanted.generation &&
             (wanted.line.empty() || there.summary->line == wanted.line);
    });
    if (found == catalog.steps.end()) break;
    if (!found->is_unverified) return {};
    reader.forget(found->name);
  }
  return Status(Code::not_found, store.path() + "/" + step_name(wanted.step) + ": generation " +
                                     std::to_string(wanted.generation) + " no longer exists");
}

/// Assigns the note to the checkpoint `about`. If it was about a checkpoint of another line, which
/// is gone, its values are dropped. Its pin stays: keeping one checkpoint too many does no harm.
Status address_note(CheckpointNote& note, const CheckpointStore& store,
                    const NotedCheckpoint& about) {
  const bool is_same = note.is_about(about.line);
  if (!is_same) {
    Status other = find_checkpoint(
        store, {.step = about.step, .generation = about.generation, .line = note.line});
    if (other.ok())
      return Status(Code::already_exists,
                    store.path() + ": two checkpoints of different runs have step " +
                        std::to_string(about.step) + " and generation " +
                        std::to_string(about.generation) +
                        ", so a note cannot tell them apart; move one to another directory");
    if (other.code() != Code::not_found) return other;
    note.values.clear();
  }
  note.line = about.line;
  return {};
}

Status change_note(const CheckpointStore& store, const NotedCheckpoint& about,
                   const std::function<void(CheckpointNote&)>& change) {
  const std::uint64_t step = about.step;
  const auto make_text = [&](const std::optional<std::string>& before) -> Result<std::string> {
    StepNotes notes;
    if (before) {
      STOKER_ASSIGN(notes, parse_step_notes(*before, step, store.note_path_of(step)));
    }
    CheckpointNote& note = notes[about.generation];
    STOKER_TRY(address_note(note, store, about));
    change(note);
    std::string text = format_step_notes(step, notes);
    // Never publish a note that a reader would reject: all earlier notes would be lost with it.
    if (text.size() > kNoteBytesMax)
      return Status(Code::invalid_argument,
                    fmt::format("the notes of step {} would have {} bytes; the limit is {}", step,
                                text.size(), kNoteBytesMax));
    if (const Result<StepNotes> again = parse_step_notes(text, step, "the new note"); !again.ok())
      return Status(Code::invalid_argument, std::string(again.status().message()));
    return text;
  };
  // Look for the checkpoint after publishing the note, not before: retention reads the note after
  // it has put a checkpoint aside.
  return store.update_note(step, make_text, [&] { return find_checkpoint(store, about); });
}

}  // namespace

bool operator==(const CheckpointNote& a, const CheckpointNote& b) {
  return a.is_pinned == b.is_pinned && a.line == b.line &&
         std::ranges::equal(a.values, b.values, [](const auto& one, const auto& other) {
           return one.first == other.first &&
                  (one.second == other.second ||
                   (std::isnan(one.second) && std::isnan(other.second)));
         });
}

std::string format_step_notes(std::uint64_t step, const StepNotes& notes) {
  std::string out =
      fmt::format("{{\n\"format\": \"stoker-notes\",\n\"format_version\": {},\n", kNotesMajor);
  fmt::format_to(std::back_inserter(out), "\"step\": {},\n\"generations\": {{\n", step);
  std::string_view comma;
  for (const auto& [generation, note] : notes) {
    const std::string line =
        note.line.empty() ? "" : fmt::format("\"line\": {}, ", internal::string_text(note.line));
    fmt::format_to(std::back_inserter(out), "{}\"{}\": {{{}\"pinned\": {}, \"values\": {}}}", comma,
                   generation, line, note.is_pinned, internal::doubles_text(note.values));
    comma = ",\n";
  }
  out += "\n},\n";
  return seal_json(std::move(out));
}

Result<StepNotes> parse_step_notes(std::string_view text, std::uint64_t step,
                                   std::string_view what) {
  STOKER_TRY(check_json_seal(text, what));
  STOKER_ASSIGN(const Json json, parse_strict_json(text, what));
  const JsonView root(json, std::string(what));
  STOKER_ASSIGN(const JsonView version, root.at("format_version"));
  STOKER_ASSIGN(const std::uint64_t major, version.u64());
  if (major > kNotesMajor)
    return Status(
        Code::unsupported,
        std::string(what) + ": was written by a newer Stoker; update this one to read it");
  STOKER_ASSIGN(const JsonView step_view, root.at("step"));
  STOKER_ASSIGN(const std::uint64_t found_step, step_view.u64());
  if (found_step != step) return step_view.corrupt("the note is about another step");
  STOKER_ASSIGN(const JsonView generations, root.at("generations"));
  if (!generations.value().is_object()) return generations.corrupt("not an object");
  StepNotes notes;
  for (const auto& [key, value] : generations.value().sorted_items()) {
    const JsonView view(value, fmt::format("{}[{}]", generations.path(), quote_for_message(key)));
    const std::optional<std::uint64_t> generation = parse_number(key);
    if (!generation || *generation > kGenerationMax) return view.corrupt("not a generation");
    STOKER_ASSIGN(notes[*generation], parse_note(view));
  }
  return notes;
}

Result<StepNotes> read_step_notes(const CheckpointStore& store, std::uint64_t step) {
  const Result<std::string> text = store.read_note(step);
  if (text.status().code() == Code::not_found) return StepNotes();
  if (!text.ok()) return text.status();
  return parse_step_notes(*text, step, store.note_path_of(step));
}

const CheckpointNote* AllNotes::find(std::uint64_t step, std::uint64_t generation) const noexcept {
  const auto notes = by_step.find(step);
  if (notes == by_step.end()) return nullptr;
  const auto note = notes->second.find(generation);
  return note == notes->second.end() ? nullptr : &note->second;
}

bool AllNotes::is_damaged(std::uint64_t step) const {
  return std::ranges::find(damaged, step, &DamagedNote::step) != damaged.end();
}

std::uint64_t AllNotes::greatest_generation() const noexcept {
  std::uint64_t greatest = 0;
  for (const auto& [step, notes] : by_step)
    if (!notes.empty()) greatest = std::max(greatest, notes.rbegin()->first);
  return greatest;
}

Result<AllNotes> read_all_notes(const CheckpointStore& store) {
  return NotesReader(store).read();
}

Result<AllNotes> NotesReader::read() {
  AllNotes all;
  STOKER_ASSIGN(const std::vector<std::uint64_t> steps, store_->list_notes());
  std::map<std::uint64_t, Known> known;
  for (const std::uint64_t step : steps) {
    const Result<FileInfo> file = store_->find_note(step);
    const auto before = known_.find(step);
    if (file.ok() && before != known_.end() && before->second.file == *file) {
      all.by_step[step] = before->second.notes;
      known.insert(*before);
      continue;
    }
    Result<StepNotes> notes = read_step_notes(*store_, step);
    if (!notes.ok()) {
      all.damaged.push_back(
          {.step = step, .path = store_->note_path_of(step), .reason = notes.status()});
      continue;
    }
    if (file.ok() && is_settled(*file)) known[step] = {.file = *file, .notes = *notes};
    all.by_step[step] = *std::move(notes);
  }
  known_ = std::move(known);
  return all;
}

Status annotate_checkpoint(const CheckpointStore& store, std::uint64_t step,
                           std::uint64_t generation, const std::map<std::string, double>& values,
                           const std::string& line) {
  for (const auto& [name, value] : values) {
    if (!name.empty() && name.size() <= kValueNameBytesMax && is_utf8(name)) continue;
    return Status(Code::invalid_argument,
                  fmt::format("{}: the name of a value must be UTF-8 of 1 to {} bytes, not {}",
                              quote_for_message(name), kValueNameBytesMax, name.size()));
  }
  return change_note(store, {.step = step, .generation = generation, .line = line},
                     [&](CheckpointNote& note) {
                       for (const auto& [name, value] : values) note.values[name] = value;
                     });
}

Status pin_checkpoint(const CheckpointStore& store, std::uint64_t step, std::uint64_t generation,
                      bool is_pinned, const std::string& line) {
  return change_note(store, {.step = step, .generation = generation, .line = line},
                     [&](CheckpointNote& note) { note.is_pinned = is_pinned; });
}

}  // namespace stoker
