#include <fmt/format.h>

#include <charconv>
#include <map>
#include <memory>
#include <system_error>
#include <vector>

#include "cli/checkpoint/arguments.h"
#include "cli/line_text.h"
#include "cli/result_writer.h"

namespace stoker::cli {
namespace {

constexpr const char* kPinFooter =
    "Notes are stored beside the checkpoints, which never change; a run may save meanwhile.";
constexpr const char* kAnnotateFooter =
    R"(Values rank checkpoints for `prune --keep-best`. A value of the same name is replaced.

Example:
  stoker checkpoint annotate run/checkpoints 1000 val_loss=2.2 accuracy=0.61)";

struct Arguments {
  std::string directory;
  std::string step;
  std::vector<std::string> values;
  bool json = false;
};

/// Notes are stored by generation, which a damaged manifest does not provide.
Result<CatalogStep> find_whole_step(const Arguments& arguments) {
  STOKER_ASSIGN(CatalogStep step, find_step(arguments.directory, arguments.step));
  if (!step.is_valid()) return step.problem.with_context(arguments.directory + "/" + step.name);
  return step;
}

Result<std::map<std::string, double>> parse_values(const std::vector<std::string>& texts) {
  std::map<std::string, double> values;
  for (const std::string& text : texts) {
    const std::size_t equals = text.rfind('=');
    double value = 0;
    const char* const end = text.data() + text.size();
    const char* const begin = equals == std::string::npos ? end : text.data() + equals + 1;
    const auto [stopped_at, error] = std::from_chars(begin, end, value);
    if (equals == 0 || error != std::errc() || stopped_at != end)
      return Status(Code::invalid_argument,
                    printable(text) + ": NAME=NUMBER is needed, such as val_loss=2.2");
    if (!values.emplace(text.substr(0, equals), value).second)
      return Status(Code::invalid_argument, printable(text.substr(0, equals)) + " is given twice");
  }
  return values;
}

/// Returns what identifies a checkpoint, for JSON output.
Json told_of(const CatalogStep& step) {
  return {{"name", step.name}, {"step", step.parsed.step}, {"generation", step.generation}};
}

Status pin(const Arguments& arguments, bool is_pinned, Context& context) {
  STOKER_ASSIGN(const CatalogStep step, find_whole_step(arguments));
  STOKER_ASSIGN(const CheckpointDirectory directory, open_directory(arguments.directory));
  STOKER_TRY(
      pin_checkpoint(directory, step.parsed.step, step.generation, is_pinned, step.summary->line));
  if (arguments.json) {
    Json told = told_of(step);
    told["pinned"] = is_pinned;
    return write_out(context, to_line(told) + "\n");
  }
  return write_out(context, fmt::format("{}: {}\n", step.name, is_pinned ? "pinned" : "unpinned"));
}

Status annotate(const Arguments& arguments, Context& context) {
  STOKER_ASSIGN(const auto values, parse_values(arguments.values));
  STOKER_ASSIGN(const CatalogStep step, find_whole_step(arguments));
  STOKER_ASSIGN(const CheckpointDirectory directory, open_directory(arguments.directory));
  STOKER_TRY(annotate_checkpoint(directory, step.parsed.step, step.generation, values,
                                 step.summary->line));
  if (arguments.json) {
    Json told = told_of(step);
    told["values"] = values_json(values);
    return write_out(context, to_line(told) + "\n");
  }
  return write_out(context, fmt::format("{}: {}\n", step.name, values_text(values)));
}

Command* add_command(Command& checkpoint, const std::string& name, const std::string& what,
                     Arguments& arguments) {
  Command* const command = checkpoint.add_subcommand(name, what);
  add_directory_argument(*command, arguments.directory);
  command->add_option("STEP", arguments.step, kStepHelp)->required();
  command->add_flag("--json", arguments.json, "Print one JSON object.");
  return command;
}

}  // namespace

void add_checkpoint_note_commands(Command& checkpoint, Context& context) {
  for (const bool is_pinned : {true, false}) {
    const auto arguments = std::make_shared<Arguments>();
    Command* const command = add_command(
        checkpoint, is_pinned ? "pin" : "unpin",
        is_pinned ? "Keep a checkpoint, whatever the rules say." : "Undo `pin`.", *arguments);
    command->footer(kPinFooter);
    command->on_chosen(
        [arguments, is_pinned, &context] { return pin(*arguments, is_pinned, context); });
  }
  const auto arguments = std::make_shared<Arguments>();
  Command* const command =
      add_command(checkpoint, "annotate", "Add values to a checkpoint.", *arguments);
  command->add_option("VALUE", arguments->values, "One or more of NAME=NUMBER.")->required();
  command->footer(kAnnotateFooter);
  command->on_chosen([arguments, &context] { return annotate(*arguments, context); });
}

}  // namespace stoker::cli
