#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <span>

#include "cli/option_value.h"
#include "cli/plan/command.h"
#include "cli/plan/measured.h"
#include "cli/result_writer.h"
#include "io/files/publish.h"
#include "plan/embedded.h"
#include "plan/quantity_text.h"

namespace stoker::cli {
namespace {

/// The kind that has too many fields to type: they come from a file.
constexpr std::string_view kFileKind = "cluster";

/// The options of one kind, as they were typed.
struct Typed {
  const plan::Kind* kind = nullptr;
  std::map<std::string, std::optional<std::string>> fields;  ///< By the name of the field.
  std::vector<std::string> devices;
  std::optional<std::string> catalogue, measure, plot, workload;
  bool example = false;
  bool json = false;
};

/// "--bytes-per-parameter"
std::string option_of(std::string_view field) {
  std::string option = fmt::format("--{}", field);
  std::ranges::replace(option, '_', '-');
  return option;
}

/// An error of the plan begins with the name of a field: people typed an option.
Status as_typed(const Status& status, const plan::Kind& kind) {
  const std::string message(status.message());
  const std::string name = message.substr(0, message.find(':'));
  if (kind.find(name) == nullptr && name != "from" && name != "plot") return status;
  return {status.code(), option_of(name) + message.substr(name.size())};
}

/// Sets what was measured, in the fields that the kind has, unless they were typed.
Status add_measured(const Typed& typed, Context& context, plan::Request& request) {
  if (!typed.measure) return {};
  STOKER_ASSIGN(const std::vector<plan::Setting> measured,
                measure_storage(*typed.measure, context));
  const std::size_t typed_count = request.settings.size();
  for (plan::Setting setting : measured) {
    if (typed.kind->find(setting.name) == nullptr) setting.name = "cache_" + setting.name;
    const auto is_same = [&](const plan::Setting& other) { return other.name == setting.name; };
    const bool is_typed =
        std::ranges::any_of(std::span(request.settings).first(typed_count), is_same);
    if (typed.kind->find(setting.name) != nullptr && !is_typed)
      request.settings.push_back(std::move(setting));
  }
  return {};
}

/// Replaces the file. A device or a link stays what it is.
Status write_plot(const plan::Answer& answer, const std::string& path) {
  std::error_code ignored;
  const auto kind = std::filesystem::symlink_status(path, ignored).type();
  if (kind != std::filesystem::file_type::not_found && kind != std::filesystem::file_type::regular)
    return Status(Code::invalid_argument,
                  fmt::format("--plot {}: exists and is not a regular file", path));
  STOKER_ASSIGN(const std::string svg, plan::render_svg(answer));
  return publish_file(posix_file_ops(), path, std::as_bytes(std::span(svg))).with_context("--plot");
}

Status run(const Typed& typed, Context& context) {
  if (typed.example) return write_out(context, plan::example_workload());
  const auto is_typed = [](const auto& field) { return field.second.has_value(); };
  if (typed.kind->name == kFileKind && !typed.workload &&
      std::ranges::none_of(typed.fields, is_typed))
    return Status(Code::invalid_argument,
                  "WORKLOAD is missing: `stoker plan cluster --example` prints one to start from");
  plan::Request request{.kind = std::string(typed.kind->name), .devices = typed.devices};
  for (const auto& [name, text] : typed.fields)
    if (text) request.settings.push_back({.name = name, .text = *text});
  STOKER_ASSIGN(request.catalogue, read_named_file("--catalogue", typed.catalogue));
  STOKER_ASSIGN(request.workload, read_named_file("WORKLOAD", typed.workload));
  STOKER_TRY(add_measured(typed, context, request));
  const Result<plan::Answer> answer = plan::compute(request);
  if (!answer.ok()) return as_typed(answer.status(), *typed.kind);
  if (typed.plot) STOKER_TRY(as_typed(write_plot(*answer, *typed.plot), *typed.kind));
  return write_out(context, typed.json ? plan::render_json(*answer) : plan::render_text(*answer));
}

std::string help_of(const plan::Field& field) {
  std::string help(field.help);
  if (field.is_required) help += " Required.";
  if (!field.fallback.empty()) {
    help.pop_back();
    help += fmt::format(" (default: {}).", field.fallback);
  }
  return help;
}

/// The command line, broken before an option where it would be too long.
std::string wrapped(std::string_view line) {
  constexpr std::size_t kColumns = 76;
  std::string text = "\n  ";
  while (line.size() > kColumns) {
    const std::size_t cut = line.rfind(" --", kColumns);
    if (cut == std::string_view::npos || cut == 0) break;
    text.append(line.substr(0, cut)).append(" \\\n     ");
    line.remove_prefix(cut);
  }
  return text.append(line);
}

std::string footer_of(const plan::Kind& kind) {
  std::string footer = "Examples:";
  for (const std::string_view example : kind.examples)
    footer += wrapped(fmt::format("stoker plan {} {}", kind.name, example));
  return footer + "\n\nExit status: 0 calculated, 1 failed, 2 misused.";
}

/// "SIZE is like 130KB or 4MiB. RATE is like 6.5GB/s." for the units that the kind has.
std::string units_of(const plan::Kind& kind) {
  std::set<plan::Unit> units;
  for (const plan::Field& field : kind.fields)
    if (field.unit != plan::Unit::text) units.insert(field.unit);
  std::string text = fmt::format("{}.", plan::kUnitsNote);
  for (const plan::Unit unit : units)
    text += fmt::format(" {}: {}.", plan::unit_name(unit), plan::unit_examples(unit));
  return text;
}

/// Whether --measure has something to give to this kind.
bool is_measurable(const plan::Kind& kind) {
  return std::ranges::any_of(kind.fields, [](const plan::Field& field) {
    return field.name.ends_with("read_rate") || field.name == "write_rate" ||
           field.name == "read_iops";
  });
}

}  // namespace

void add_plan_kind_command(Command& parent, Context& context, const plan::Kind& kind) {
  const auto typed = std::make_shared<Typed>();
  typed->kind = &kind;
  Command* command = parent.add_subcommand(std::string(kind.name), std::string(kind.question));
  const bool has_workload = kind.name == kFileKind;
  if (has_workload) {
    command->add_option("WORKLOAD", typed->workload, "Workload file (TOML); see --example.")
        ->as_path();
    command->add_flag("--example", typed->example, "Print a workload file to start from.");
  }
  for (const plan::Field& field : kind.fields) {
    Option* option = command->add_option(option_of(field.name),
                                         typed->fields[std::string(field.name)], help_of(field));
    option->value_name(plan::unit_name(field.unit));
    if (field.words.empty()) continue;
    option->check(one_of({field.words.begin(), field.words.end()}));
  }
  const std::string sources = "Values and output";
  command
      ->add_option("--from", typed->devices,
                   "Device of the catalogue whose values fill other options; may be repeated.")
      ->one_value_each()
      ->group(sources);
  if (is_measurable(kind))
    command
        ->add_option("--measure", typed->measure,
                     "Measure the storage of this directory for some seconds, and use its rates.")
        ->as_path()
        ->group(sources);
  command
      ->add_option("--catalogue", typed->catalogue,
                   "File with devices of your own: they precede Stoker's of the same name.")
      ->as_path()
      ->group(sources);
  if (kind.has_plot)
    command->add_option("--plot", typed->plot, "Write the curve to this file, as SVG.")
        ->as_path()
        ->group(sources);
  command->add_flag("--json", typed->json, "Print one JSON object instead of text.")
      ->group(sources);
  command->footer(fmt::format("{}\n\n{}\n\n{}", kind.about, units_of(kind), footer_of(kind)));
  on_chosen(*command, typed, context, run);
}

}  // namespace stoker::cli
