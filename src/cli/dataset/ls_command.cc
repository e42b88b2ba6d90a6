#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "cli/dataset/dataset_arguments.h"
#include "cli/dataset/sample_text.h"
#include "cli/line_text.h"
#include "cli/registry.h"
#include "cli/result_writer.h"
#include "formats/json/json.h"
#include "stoker/units.h"

namespace stoker::cli {
namespace {

constexpr const char* kFooter =
    "Prints a line for each sample: its number, its key, its fields and their sizes. Every sample "
    "is\n"
    "read.";

struct LsArguments {
  DatasetArguments dataset;
  std::optional<std::uint64_t> limit;
  bool json = false;
};

std::string render_text(std::uint64_t number, const SampleRecord& sample) {
  std::string fields;
  for (const FieldView& field : sample.view().fields)
    fields += fmt::format("{}{} {}", fields.empty() ? "" : ", ", printable(field.name),
                          format_bytes(field.bytes.size()));
  return fmt::format("{:>8}  {}  {}", number, printable(sample.key()), fields);
}

std::string render_json(const std::string& name, std::uint64_t number, const SampleRecord& sample) {
  Json fields = Json::object();
  for (const FieldView& field : sample.view().fields)
    fields[std::string(field.name)] = describe_field(field);
  return to_line({{"dataset", name},
                  {"number", number},
                  {"key", sample.key()},
                  {"fields", std::move(fields)}});
}

Status list(const std::string& name, const ShardDataset& dataset, const LsArguments& arguments,
            ResultWriter& out) {
  if (!arguments.json) STOKER_TRY(out.line(fmt::format("{}: {}", name, describe_dataset(dataset))));
  const std::uint64_t count =
      std::min(dataset.sample_count(), arguments.limit.value_or(dataset.sample_count()));
  SampleRecord sample;
  for (std::uint64_t i = 0; i < count; ++i) {
    STOKER_TRY(dataset.read(i, sample));
    STOKER_TRY(out.line(arguments.json ? render_json(name, i, sample) : render_text(i, sample)));
  }
  return {};
}

Status run(const LsArguments& arguments, Context& context) {
  ResultWriter out(context);
  for (const std::vector<std::string>& patterns : group_datasets(arguments.dataset.uris)) {
    STOKER_ASSIGN(const std::shared_ptr<const ShardDataset> dataset,
                  open_dataset(patterns, arguments.dataset, context));
    const Status status = list(dataset_name(patterns, *dataset), *dataset, arguments, out);
    STOKER_TRY(out.flush());  // print what was listed before a bad sample
    STOKER_TRY(status);
  }
  return {};
}

}  // namespace

void add_ls_command(Command& stoker, Context& context) {
  Command* command = stoker.add_subcommand("ls", "List the samples of a dataset.");
  const auto arguments = std::make_shared<LsArguments>();
  add_dataset_arguments(*command, arguments->dataset);
  command
      ->add_option("--limit", arguments->limit, "Samples to list of each dataset (default: all).")
      ->check(count_from(0));
  command->add_flag("--json", arguments->json, "Print one JSON object for each sample.");
  command->footer(kFooter);
  on_chosen(*command, arguments, context, run);
}

}  // namespace stoker::cli
