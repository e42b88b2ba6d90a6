#include <fmt/format.h>

#include <memory>

#include "checkpoint/inspect/diff.h"
#include "cli/checkpoint/arguments.h"
#include "cli/line_text.h"
#include "cli/result_writer.h"
#include "cli/text_table.h"
#include "cli/work_progress.h"
#include "stoker/units.h"

namespace stoker::cli {
namespace {

constexpr const char* kFooter =
    R"(Compares the tensors of A with those of B by name. Tensors with equal checksums are not read.
l2 and max count finite differences only. Differences are not a failure: the exit status is 0.)";

struct Arguments {
  std::string directory;
  std::string before;
  std::string after;
  bool json = false;
};

std::string render_text(const CheckpointDiff& diff) {
  TextTable table({"tensor", ">changed", ">of", ">l2", ">max", "notes"});
  for (const TensorChange& change : diff.changed) {
    std::string notes = change.is_reshaped ? "other type or shape" : "";
    if (change.nonfinite_count != 0)
      notes = fmt::format("not finite: {}", counted(change.nonfinite_count, "difference"));
    table.add({printable(change.name),
               change.is_reshaped ? "-" : std::to_string(change.changed_count),
               std::to_string(change.element_count),
               change.has_norms ? fmt::format("{:.6g}", change.l2) : "-",
               change.has_norms ? fmt::format("{:.6g}", change.max_abs) : "-", notes});
  }
  std::string text = table.empty() ? "" : table.render();
  for (const std::string& name : diff.added) text += "only in B: " + printable(name) + "\n";
  for (const std::string& name : diff.removed) text += "only in A: " + printable(name) + "\n";
  return text + fmt::format("{} changed, {} added, {} removed, {} the same; read {} of each\n",
                            diff.changed.size(), diff.added.size(), diff.removed.size(),
                            diff.unchanged_count, format_bytes(diff.compared_bytes));
}

std::string render_json(const CheckpointDiff& diff, const CheckpointReader& before,
                        const CheckpointReader& after) {
  Json changed = Json::array();
  for (const TensorChange& change : diff.changed) {
    Json entry = {{"name", change.name},
                  {"reshaped", change.is_reshaped},
                  {"elements", change.element_count},
                  {"changed", change.changed_count}};
    if (change.has_norms) {
      entry["l2"] = number_json(change.l2);
      entry["max_abs"] = number_json(change.max_abs);
      entry["nonfinite"] = change.nonfinite_count;
    }
    changed.push_back(std::move(entry));
  }
  return to_line({{"before", before.directory()},
                  {"after", after.directory()},
                  {"changed", std::move(changed)},
                  {"added", Json::array_of(diff.added)},
                  {"removed", Json::array_of(diff.removed)},
                  {"unchanged", diff.unchanged_count},
                  {"compared_bytes", diff.compared_bytes}}) +
         "\n";
}

Status run(const Arguments& arguments, Context& context) {
  STOKER_ASSIGN(const CheckpointReader before,
                open_step(arguments.directory, arguments.before, context));
  STOKER_ASSIGN(const CheckpointReader after,
                open_step(arguments.directory, arguments.after, context));
  WorkProgress progress(context, "comparing", "bytes");
  DiffOptions options;
  if (!arguments.json)
    options.progress = [&](std::uint64_t done, std::uint64_t count) {
      progress.show({.done = done, .count = count, .bytes = done});
    };
  const Result<CheckpointDiff> diff = diff_checkpoints(before, after, options);
  progress.clear();
  if (!diff.ok()) return diff.status();
  return write_out(context,
                   arguments.json ? render_json(*diff, before, after) : render_text(*diff));
}

}  // namespace

void add_checkpoint_diff_command(Command& checkpoint, Context& context) {
  Command* const command = checkpoint.add_subcommand(
      "diff", "List the tensors in which two checkpoints differ, and by how much.");
  const auto arguments = std::make_shared<Arguments>();
  add_directory_argument(*command, arguments->directory);
  command->add_option("A", arguments->before, kStepHelp)->required();
  command
      ->add_option("B", arguments->after, "The checkpoint to compare with, given in the same way.")
      ->required();
  command->add_flag("--json", arguments->json, "Print one JSON object.");
  command->footer(kFooter);
  command->on_chosen([arguments, &context] { return run(*arguments, context); });
}

}  // namespace stoker::cli
