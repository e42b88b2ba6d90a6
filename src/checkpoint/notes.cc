#include "checkpoint/notes.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "checkpoint/manifest_json.h"
#include "checkpoint/sealed_json.h"
#include "checkpoint/text_file.h"
#include "checkpoint/tree_removal.h"
#include "formats/strict_json.h"
#include "io/publish.h"

namespace stoker {
namespace {

constexpr std::size_t kNoteBytesMax = std::size_t{16} << 20;
constexpr std::uint64_t kNotesMajor = 1;
constexpr std::string_view kNotesLockName = ".lock";

std::string json_string(std::string_view text) {
  return nlohmann::json(std::string(text))
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// As in manifests: JSON has no NaN and no infinities.
std::string number_text(double value) {
  if (std::isnan(value)) return R"({"!float": "nan"})";
  if (std::isinf(value)) return value > 0 ? R"({"!float": "inf"})" : R"({"!float": "-inf"})";
  return nlohmann::json(value).dump();
}

Result<CheckpointNote> parse_note(const JsonView& view) {
  CheckpointNote note;
  STOKER_ASSIGN(const JsonView pinned, view.at("pinned"));
  if (!pinned.value().is_boolean()) return pinned.corrupt("not true or false");
  note.is_pinned = pinned.value().get<bool>();
  STOKER_ASSIGN(const JsonView values, view.at("values"));
  if (!values.value().is_object()) return values.corrupt("not an object");
  for (const auto& [name, value] : values.value().items()) {
    STOKER_ASSIGN(note.values[name],
                  internal::double_of(JsonView(value, values.path() + "." + name)));
  }
  return note;
}

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// The lock that writers of notes hold for the moment between reading and renaming, so that none
/// loses what another has said. Where files cannot be locked they do without.
Result<UniqueFd> lock_notes(FileOps& ops, const std::string& directory) {
  constexpr nanoseconds kPause = std::chrono::milliseconds(2);
  constexpr nanoseconds kTimeout = std::chrono::seconds(10);
  STOKER_ASSIGN(UniqueFd fd,
                ops.open(directory + "/" + std::string(kNotesLockName), O_RDWR | O_CREAT));
  const Deadline deadline = deadline_after(kTimeout);
  for (;;) {
    const Status status = ops.try_lock(fd.get(), LockMode::exclusive);
    if (status.ok() || status.code() == Code::unsupported) return fd;
    if (status.code() != Code::unavailable || Clock::now() >= deadline)
      return status.with_context(directory + ": another writer of notes");
    std::this_thread::sleep_for(kPause);
  }
}

Status change_note(FileOps& ops, const std::string& directory, std::uint64_t step,
                   const std::function<void(StepNotes&)>& change) {
  const std::string notes_directory = directory + "/" + std::string(kNotesName);
  STOKER_TRY(make_directories(ops, notes_directory));
  STOKER_ASSIGN(const UniqueFd lock, lock_notes(ops, notes_directory));
  STOKER_ASSIGN(StepNotes notes, read_step_notes(ops, directory, step));
  change(notes);
  const std::string text = format_step_notes(step, notes);
  return publish_file(ops, directory + "/" + note_path(step), std::as_bytes(std::span(text)));
}

}  // namespace

std::string format_step_notes(std::uint64_t step, const StepNotes& notes) {
  std::string out =
      fmt::format("{{\n\"format\": \"stoker-notes\",\n\"format_version\": {},\n", kNotesMajor);
  fmt::format_to(std::back_inserter(out), "\"step\": {},\n\"generations\": {{\n", step);
  std::string_view comma;
  for (const auto& [generation, note] : notes) {
    fmt::format_to(std::back_inserter(out), "{}\"{}\": {{\"pinned\": {}, \"values\": {{", comma,
                   generation, note.is_pinned);
    std::string_view between;
    for (const auto& [name, value] : note.values) {
      fmt::format_to(std::back_inserter(out), "{}{}: {}", between, json_string(name),
                     number_text(value));
      between = ", ";
    }
    out += "}}";
    comma = ",\n";
  }
  out += "\n},\n";
  return seal_json(std::move(out));
}

Result<StepNotes> parse_step_notes(std::string_view text, std::uint64_t step,
                                   std::string_view what) {
  STOKER_TRY(check_json_seal(text, what));
  STOKER_ASSIGN(const nlohmann::json json, parse_strict_json(text, what));
  const JsonView root(json, std::string(what));
  STOKER_ASSIGN(const JsonView version, root.at("format_version"));
  STOKER_ASSIGN(const std::uint64_t major, version.u64());
  if (major > kNotesMajor)
    return Status(Code::unsupported, std::string(what) + ": written by a newer version");
  STOKER_ASSIGN(const JsonView step_view, root.at("step"));
  STOKER_ASSIGN(const std::uint64_t found_step, step_view.u64());
  if (found_step != step) return step_view.corrupt("the note is of another step");
  STOKER_ASSIGN(const JsonView generations, root.at("generations"));
  if (!generations.value().is_object()) return generations.corrupt("not an object");
  StepNotes notes;
  for (const auto& [key, value] : generations.value().items()) {
    const JsonView view(value, generations.path() + "." + key);
    const std::optional<std::uint64_t> generation = parse_number(key);
    if (!generation) return view.corrupt("not a generation");
    STOKER_ASSIGN(notes[*generation], parse_note(view));
  }
  return notes;
}

Result<StepNotes> read_step_notes(FileOps& ops, const std::string& directory, std::uint64_t step) {
  const std::string path = directory + "/" + note_path(step);
  const Result<std::string> text = read_text_file(ops, path, kNoteBytesMax);
  if (text.status().code() == Code::not_found) return StepNotes();
  if (!text.ok()) return text.status();
  return parse_step_notes(*text, step, path);
}

const CheckpointNote* AllNotes::find(std::uint64_t step, std::uint64_t generation) const noexcept {
  const auto notes = by_step.find(step);
  if (notes == by_step.end()) return nullptr;
  const auto note = notes->second.find(generation);
  return note == notes->second.end() ? nullptr : &note->second;
}

bool AllNotes::is_damaged(std::uint64_t step) const {
  return std::ranges::any_of(
      damaged, [&](const DamagedNote& note) { return note.path.ends_with("/" + note_path(step)); });
}

Result<AllNotes> read_all_notes(FileOps& ops, const std::string& directory) {
  constexpr std::string_view kSuffix = ".json";
  AllNotes all;
  const Result<std::vector<std::string>> names =
      ops.list(directory + "/" + std::string(kNotesName));
  if (names.status().code() == Code::not_found) return all;
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    if (!name.ends_with(kSuffix)) continue;
    const std::optional<StepName> parsed =
        parse_step_name(name.substr(0, name.size() - kSuffix.size()));
    if (!parsed || parsed->superseded_generation) continue;
    Result<StepNotes> notes = read_step_notes(ops, directory, parsed->step);
    if (notes.ok())
      all.by_step[parsed->step] = *std::move(notes);
    else
      all.damaged.push_back({directory + "/" + note_path(parsed->step), notes.status()});
  }
  return all;
}

Status annotate_checkpoint(FileOps& ops, const std::string& directory, std::uint64_t step,
                           std::uint64_t generation, const std::map<std::string, double>& values) {
  return change_note(ops, directory, step, [&](StepNotes& notes) {
    for (const auto& [name, value] : values) notes[generation].values[name] = value;
  });
}

Status pin_checkpoint(FileOps& ops, const std::string& directory, std::uint64_t step,
                      std::uint64_t generation, bool is_pinned) {
  return change_note(ops, directory, step,
                     [&](StepNotes& notes) { notes[generation].is_pinned = is_pinned; });
}

}  // namespace stoker
