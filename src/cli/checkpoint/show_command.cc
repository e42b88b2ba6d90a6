#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "cli/checkpoint/arguments.h"
#include "cli/checkpoint/state_summary.h"
#include "cli/line_text.h"
#include "cli/result_writer.h"
#include "cli/text_table.h"
#include "cli/work_progress.h"
#include "stoker/units.h"

namespace stoker::cli {
namespace {

constexpr std::size_t kStateLinesMax = 40;
constexpr std::size_t kTextMax = 200;
constexpr const char* kFooter =
    "Shows the manifest; reads no data. A tensor that several ranks saved in slices is one line.\n"
    "--json prints everything, including the trees of state.";

struct Arguments {
  std::string directory;
  std::string step = "latest";
  bool json = false;
};

struct Shown {
  CatalogStep step;
  CheckpointManifest manifest;
  CheckpointNote note;
  /// All slices of each tensor, by name.
  std::map<std::string_view, std::vector<const CheckpointTensor*>> tensors;

  const std::string& file_of(const CheckpointTensor& tensor) const {
    return manifest.files[tensor.file].name;
  }
};

std::string time_text(double time_s) {
  const std::string text = calendar_text(time_s);
  return text.empty() ? "at an invalid time" : text;
}

/// Returns one line of limited length.
std::string shortened(const std::string& text) {
  const std::string safe = printable(text);
  return safe.size() <= kTextMax
             ? safe
             : safe.substr(0, kTextMax) + fmt::format("... ({} characters)", safe.size());
}

std::string head_text(const Shown& shown) {
  const CheckpointManifest& manifest = shown.manifest;
  std::string text = fmt::format("{}: generation {}, saved {} by {} ({})\n", shown.step.name,
                                 manifest.generation, time_text(manifest.time_s),
                                 printable(manifest.tool), counted(manifest.world_size, "rank"));
  if (manifest.parent)
    text += fmt::format("continues step {}, generation {}\n", manifest.parent->step,
                        manifest.parent->generation);
  if (!manifest.reference.empty()) text += "reference: " + values_text(manifest.reference) + "\n";
  if (!shown.note.values.empty()) text += "annotations: " + values_text(shown.note.values) + "\n";
  if (shown.note.is_pinned) text += "pinned\n";
  if (shown.step.has_new_nonfinite) text += "has new values that are not finite\n";
  if (manifest.extra_json != "null") text += "extra: " + shortened(manifest.extra_json) + "\n";
  if (manifest.cursor_json != "null") text += "cursor: " + shortened(manifest.cursor_json) + "\n";
  return text;
}

std::string files_text(const Shown& shown) {
  TextTable table({"file", ">size", "links"});
  for (const CheckpointFile& file : shown.manifest.files)
    table.add({printable(file.name), format_bytes(file.size_bytes),
               file.link_count == 0 ? "" : fmt::format("linked {} times", file.link_count)});
  return table.empty() ? "" : "\n" + table.render();
}

std::string tensors_text(const Shown& shown) {
  TextTable table({"tensor", "dtype", "shape", ">size", "file", "notes"});
  for (const auto& [name, slices] : shown.tensors) {
    std::uint64_t size_bytes = 0;
    std::uint64_t nonfinite = 0;
    for (const CheckpointTensor* const slice : slices) {
      size_bytes += slice->end_bytes - slice->begin_bytes;
      nonfinite += slice->nonfinite_count;
    }
    const CheckpointTensor& first = *slices.front();
    std::string file = printable(shown.file_of(first));
    if (slices.size() > 1) file += fmt::format(" and {} more", slices.size() - 1);
    table.add({printable(name), std::string(tensor_type_name(first.type)),
               shape_text(first.global_shape), format_bytes(size_bytes), file,
               nonfinite == 0 ? "" : fmt::format("{} not finite", nonfinite)});
  }
  return table.empty() ? "\nno tensors\n" : "\n" + table.render();
}

std::string state_text(const Shown& shown) {
  std::string text;
  for (std::size_t rank = 0; rank < shown.manifest.state_json.size(); ++rank) {
    if (shown.manifest.state_json[rank] == "null") continue;
    const std::vector<StateLine> lines = summarize_state(shown.manifest.state_json[rank]);
    text += fmt::format("\nstate of rank {}\n", rank);
    for (std::size_t i = 0; i < lines.size() && i < kStateLinesMax; ++i)
      text += fmt::format("  {}{}{}\n", lines[i].path, lines[i].path.empty() ? "" : ": ",
                          shortened(lines[i].what));
    if (lines.size() > kStateLinesMax)
      text += fmt::format("  and {} more\n", lines.size() - kStateLinesMax);
  }
  return text;
}

/// Removes line breaks from a tree in the manifest. The manifest was validated, so the tree is
/// JSON, and a line break in it can only be space between two values.
std::string in_one_line(std::string tree) {
  std::ranges::replace_if(tree, [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return tree;
}

Json tensors_json(const Shown& shown) {
  Json list = Json::array();
  for (const auto& [name, slices] : shown.tensors) {
    std::uint64_t size_bytes = 0;
    std::uint64_t nonfinite = 0;
    Json places = Json::array();
    for (const CheckpointTensor* const slice : slices) {
      size_bytes += slice->end_bytes - slice->begin_bytes;
      nonfinite += slice->nonfinite_count;
      places.push_back({{"file", shown.file_of(*slice)},
                        {"offsets", Json::array_of(slice->offsets)},
                        {"shape", Json::array_of(slice->shape)},
                        {"begin_bytes", slice->begin_bytes},
                        {"end_bytes", slice->end_bytes}});
    }
    list.push_back({{"name", name},
                    {"dtype", tensor_type_name(slices.front()->type)},
                    {"shape", Json::array_of(slices.front()->global_shape)},
                    {"size_bytes", size_bytes},
                    {"nonfinite_count", nonfinite},
                    {"slices", std::move(places)}});
  }
  return list;
}

std::string render_json(const Shown& shown, const std::string& directory) {
  const CheckpointManifest& manifest = shown.manifest;
  Json files = Json::array();
  for (const CheckpointFile& file : manifest.files)
    files.push_back(
        {{"name", file.name}, {"size_bytes", file.size_bytes}, {"link_count", file.link_count}});
  Json parent;
  if (manifest.parent)
    parent = {{"step", manifest.parent->step}, {"generation", manifest.parent->generation}};
  std::string text = to_line({{"directory", directory},
                              {"name", shown.step.name},
                              {"step", manifest.step},
                              {"generation", manifest.generation},
                              {"time_s", number_json(manifest.time_s)},
                              {"tool", manifest.tool},
                              {"world_size", manifest.world_size},
                              {"parent", std::move(parent)},
                              {"superseded", shown.step.is_superseded()},
                              {"pinned", shown.note.is_pinned},
                              {"new_nonfinite", shown.step.has_new_nonfinite},
                              {"size_bytes", shown.step.summary->size_bytes},
                              {"reference", values_json(manifest.reference)},
                              {"annotations", values_json(shown.note.values)},
                              {"files", std::move(files)},
                              {"tensors", tensors_json(shown)}});
  text.pop_back();  // the closing brace
  text += ",\"extra\":" + in_one_line(manifest.extra_json);
  text += ",\"cursor\":" + in_one_line(manifest.cursor_json) + ",\"state\":[";
  for (const std::string& tree : manifest.state_json)
    text += (&tree == &manifest.state_json.front() ? "" : ",") + in_one_line(tree);
  return text + "]}\n";
}

Status show(const Arguments& arguments, Context& context) {
  Shown shown;
  STOKER_ASSIGN(shown.step, find_step(arguments.directory, arguments.step));
  if (!shown.step.is_valid())
    return shown.step.problem.with_context(arguments.directory + "/" + shown.step.name);
  STOKER_ASSIGN(const CheckpointDirectory directory, open_directory(arguments.directory));
  STOKER_ASSIGN(shown.manifest, directory.read_manifest(shown.step.name));
  STOKER_ASSIGN(const AllNotes notes, read_all_notes(directory));
  shown.note = note_of(notes, shown.step);
  for (const CheckpointTensor& tensor : shown.manifest.tensors)
    shown.tensors[tensor.name].push_back(&tensor);
  return write_out(context, arguments.json ? render_json(shown, arguments.directory)
                                           : head_text(shown) + files_text(shown) +
                                                 tensors_text(shown) + state_text(shown));
}

/// A run may remove the checkpoint that was just found: then show the newer one.
Status run(const Arguments& arguments, Context& context) {
  constexpr int kAttemptsMax = 10;
  const bool is_newest = arguments.step == kLatestName;
  for (int attempt = 1;; ++attempt) {
    Status shown = show(arguments, context);
    if (!is_newest || !is_gone(shown) || attempt == kAttemptsMax) return shown;
  }
}

}  // namespace

void add_checkpoint_show_command(Command& checkpoint, Context& context) {
  Command* const command =
      checkpoint.add_subcommand("show", "Show what is in a checkpoint: tensors, files, state.");
  const auto arguments = std::make_shared<Arguments>();
  add_directory_argument(*command, arguments->directory);
  command->add_option("STEP", arguments->step, std::string(kStepHelp) + " (default: latest)");
  command->add_flag("--json", arguments->json, "Print one JSON object.");
  command->footer(kFooter);
  command->on_chosen([arguments, &context] { return run(*arguments, context); });
}

}  // namespace stoker::cli
