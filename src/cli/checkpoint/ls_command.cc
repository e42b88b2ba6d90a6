#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>

#include "checkpoint/inspect/verify.h"
#include "cli/checkpoint/arguments.h"
#include "cli/engine_choice.h"
#include "cli/line_text.h"
#include "cli/result_writer.h"
#include "cli/text_table.h"
#include "cli/work_progress.h"
#include "io/files/filesystem.h"
#include "stoker/units.h"

namespace stoker::cli {
namespace {

constexpr const char* kFooter =
    R"(The newest checkpoint comes first, by generation: a run that was rewound saves a step again, and the
checkpoint that had this number is superseded; `flags` has the name of its directory. --verify reads and
checks all data, as `stoker checkpoint verify --all` does; the exit status is then 1 if a checkpoint is
damaged or could not be checked. A checkpoint that cannot be read for lack of permissions or descriptors
is "unreadable", not damaged. Committed checkpoints are durable, except on filesystems in memory. Values
are those saved with the checkpoint, then those added by `annotate`.)";

struct Arguments {
  std::string directory;
  bool verify = false;
  bool json = false;
};

struct Listing {
  std::string directory;
  Catalog catalog;
  AllNotes notes;
  double now_s = 0;
  bool is_in_memory = false;                     ///< On tmpfs or ramfs: lost on power failure.
  std::map<std::string, bool> verified;          ///< By name: whether it is undamaged, if checked.
  std::map<std::string, Status> unchecked = {};  ///< By name: why it could not be checked.

  /// Returns the name of the newest checkpoint, wherever the link points.
  std::string latest() const {
    const CatalogStep* const newest = catalog.newest();
    return newest == nullptr ? std::string() : newest->name;
  }
  bool is_durable(const CatalogStep& step) const { return step.is_valid() && !is_in_memory; }
  const char* verified_text(const CatalogStep& step) const {
    const auto found = verified.find(step.name);
    if (found == verified.end()) return "-";
    return found->second ? "yes" : "DAMAGED";
  }
};

/// Returns the approximate age: "12 s", "5 min", "3.2 h", "14.0 d".
std::string age_text(double seconds) {
  constexpr double kMinute = 60;
  constexpr double kHour = 60 * kMinute;
  constexpr double kDay = 24 * kHour;
  if (seconds < kMinute) return fmt::format("{:.0f} s", std::max(seconds, 0.0));
  if (seconds < kHour) return fmt::format("{:.0f} min", seconds / kMinute);
  if (seconds < kDay) return fmt::format("{:.1f} h", seconds / kHour);
  return fmt::format("{:.1f} d", seconds / kDay);
}

std::string flags_text(const Listing& listing, const CatalogStep& step) {
  std::string text;
  const auto add = [&text](bool is_set, std::string_view word) {
    if (is_set) text.append(text.empty() ? "" : ", ").append(word);
  };
  add(step.name == listing.latest(), "latest");
  add(!step.is_valid(), is_damage(step.problem) ? "damaged" : "unreadable");
  add(step.is_superseded(), step.name);  // the name to use for it in commands
  add(step.has_new_nonfinite, "non-finite");
  add(note_of(listing.notes, step).is_pinned, "pinned");
  return text;
}

std::string render_text(const Listing& listing) {
  TextTable table(
      {">step", ">generation", ">age", ">size", "durable", "verified", "flags", "values"});
  std::string damages;
  for (const CatalogStep& step : listing.catalog.steps) {
    std::string values;
    std::string age = "-";
    std::string size = "-";
    if (step.is_valid()) {
      values = values_text(step.summary->reference);
      if (!calendar_text(step.summary->time_s).empty())
        age = age_text(listing.now_s - step.summary->time_s);
      size = format_bytes(step.summary->size_bytes);
    } else {
      damages += fmt::format("{}: {}\n", step.name, printable(step.problem.message()));
    }
    const std::string noted = values_text(note_of(listing.notes, step).values);
    if (const auto found = listing.unchecked.find(step.name);
        step.is_valid() && found != listing.unchecked.end())
      damages +=
          fmt::format("{}: not checked: {}\n", step.name, printable(found->second.message()));
    if (!values.empty() && !noted.empty()) values += " ";
    table.add({std::to_string(step.parsed.step),
               step.generation == 0 ? "-" : std::to_string(step.generation), age, size,
               listing.is_durable(step) ? "yes" : "no", listing.verified_text(step),
               flags_text(listing, step), values + noted});
  }
  if (table.empty()) return fmt::format("no checkpoints in {}\n", listing.directory);
  for (const DamagedNote& note : listing.notes.damaged)
    damages += fmt::format("{}: {}\n", note.path, printable(note.reason.message()));
  return table.render() + damages;
}

Json step_json(const Listing& listing, const CatalogStep& step) {
  const CheckpointNote note = note_of(listing.notes, step);
  Json object = {
      {"name", step.name},
      {"step", step.parsed.step},
      {"generation", step.generation},
      {"latest", step.name == listing.latest()},
      {"superseded", step.is_superseded()},
      {"pinned", note.is_pinned},
      {"new_nonfinite", step.has_new_nonfinite},
      {"durable", listing.is_durable(step)},
      {"verified", nullptr},
      {"damage", nullptr},
      {"unreadable", nullptr},
      {"annotations", values_json(note.values)},
  };
  if (const auto found = listing.verified.find(step.name); found != listing.verified.end())
    object["verified"] = found->second;
  if (!step.is_valid()) {
    object[is_damage(step.problem) ? "damage" : "unreadable"] = step.problem.message();
    return object;
  }
  if (const auto found = listing.unchecked.find(step.name); found != listing.unchecked.end())
    object["unreadable"] = found->second.message();
  object["time_s"] = number_json(step.summary->time_s);
  object["age_s"] = number_json(listing.now_s - step.summary->time_s);
  object["size_bytes"] = step.summary->size_bytes;
  object["linked_bytes"] = step.summary->linked_bytes;
  object["world_size"] = step.summary->world_size;
  object["reference"] = values_json(step.summary->reference);
  return object;
}

std::string render_json(const Listing& listing) {
  Json steps = Json::array();
  for (const CatalogStep& step : listing.catalog.steps) steps.push_back(step_json(listing, step));
  Json notes = Json::array();
  for (const DamagedNote& note : listing.notes.damaged)
    notes.push_back({{"path", note.path}, {"damage", note.reason.message()}});
  return to_line({{"directory", listing.directory},
                  {"latest", listing.latest()},
                  {"checkpoints", std::move(steps)},
                  {"damaged_notes", std::move(notes)}}) +
         "\n";
}

Result<bool> is_in_memory(const std::string& directory) {
  STOKER_ASSIGN(const UniqueFd fd, posix_file_ops().open(directory, O_RDONLY | O_DIRECTORY));
  STOKER_ASSIGN(const FilesystemKind kind, filesystem_of(fd.get()));
  return kind.name == "tmpfs" || kind.name == "ramfs";
}

/// Checks all checkpoints. Those that are removed meanwhile are not marked.
Status verify_all(const CheckpointDirectory& directory, Listing& listing, Context& context) {
  STOKER_ASSIGN(const EngineKind engine, try_engine());
  WorkProgress progress(context, "verifying", "checkpoints");
  const std::size_t count = listing.catalog.steps.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::string& name = listing.catalog.steps[i].name;
    progress.show({.done = i, .count = count, .note = name});
    const Result<CheckpointVerifyReport> report = verify_checkpoint(
        directory, name, {.reader = {.engine = make_engine_factory(engine)}, .stop = context.stop});
    if (!report.ok() && is_gone(report.status())) continue;
    if (report.status().code() == Code::cancelled) return report.status();
    if (!report.ok()) {
      listing.unchecked[name] = report.status();
      context.exit_code = kExitFailed;
      continue;
    }
    listing.verified[name] = report->damages.empty();
    if (!report->damages.empty()) context.exit_code = kExitFailed;
  }
  return {};
}

Status run(const Arguments& arguments, Context& context) {
  Listing listing{.directory = arguments.directory, .catalog = {}, .notes = {}, .verified = {}};
  STOKER_ASSIGN(const CheckpointDirectory directory, open_directory(arguments.directory));
  STOKER_ASSIGN(listing.catalog, list_checkpoints(directory));
  if (listing.catalog.steps.empty() && directory.ops().kind_of(directory.at("manifest.json")).ok())
    return no_checkpoints(arguments.directory);
  STOKER_ASSIGN(listing.notes, read_all_notes(directory));
  STOKER_ASSIGN(listing.is_in_memory, is_in_memory(arguments.directory));
  if (arguments.verify) STOKER_TRY(verify_all(directory, listing, context));
  listing.now_s =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return write_out(context, arguments.json ? render_json(listing) : render_text(listing));
}

}  // namespace

void add_checkpoint_ls_command(Command& checkpoint, Context& context) {
  Command* const command = checkpoint.add_subcommand("ls", "List the checkpoints.");
  const auto arguments = std::make_shared<Arguments>();
  add_directory_argument(*command, arguments->directory);
  command->add_flag("--verify", arguments->verify, "Check every byte of each checkpoint.");
  command->add_flag("--json", arguments->json, "Print one JSON object.");
  command->footer(kFooter);
  command->on_chosen([arguments, &context] { return run(*arguments, context); });
}

}  // namespace stoker::cli
