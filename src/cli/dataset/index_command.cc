#include <fmt/format.h>

#include <memory>

#include "cli/dataset/dataset_arguments.h"
#include "cli/line_text.h"
#include "cli/registry.h"
#include "cli/result_writer.h"
#include "formats/json/json.h"

namespace stoker::cli {
namespace {

constexpr const char* kFooter =
    "Other commands and the library build a missing index themselves; this one shows it, adds\n"
    "checksums, or rebuilds it. The index is in DATASET/.stoker, or, if that is not writable, in\n"
    "$XDG_CACHE_HOME/stoker/index. --json prints one object for each dataset.";

struct IndexArguments {
  DatasetArguments dataset;
  bool json = false;
};

std::string render_text(const std::string& name, const ShardDataset& dataset) {
  return fmt::format(
      "{}: {}\n"
      "  index        {}\n"
      "  checksums    {}\n"
      "  fingerprint  {}",
      name, describe_dataset(dataset), dataset.index_path(), explain_checks(dataset),
      dataset.index().fingerprint().hex());
}

std::string render_json(const std::string& name, const ShardDataset& dataset) {
  return to_line({{"dataset", name},
                  {"format", dataset.index().format()},
                  {"samples", dataset.sample_count()},
                  {"shards", dataset.index().shards().size()},
                  {"size_bytes", shard_bytes_of(dataset)},
                  {"index", dataset.index_path()},
                  {"checks", checks_of(dataset)},
                  {"fingerprint", dataset.index().fingerprint().hex()}});
}

Status run(const IndexArguments& arguments, Context& context) {
  ResultWriter out(context);
  for (const std::vector<std::string>& patterns : group_datasets(arguments.dataset.uris)) {
    STOKER_ASSIGN(const std::shared_ptr<const ShardDataset> dataset,
                  open_dataset(patterns, arguments.dataset, context));
    const std::string name = dataset_name(patterns, *dataset);
    STOKER_TRY(
        out.line(arguments.json ? render_json(name, *dataset) : render_text(name, *dataset)));
  }
  return out.flush();
}

}  // namespace

void add_index_command(Command& stoker, Context& context) {
  Command* command = stoker.add_subcommand(
      "index", "Build or show the index of a dataset, which locates every sample.");
  const auto arguments = std::make_shared<IndexArguments>();
  arguments->dataset.needs_index_file = true;
  arguments->dataset.check_index = true;
  add_dataset_arguments(*command, arguments->dataset);
  command->add_flag(
      "--checksums", arguments->dataset.checksums,
      "Add a checksum for each sample, checked on every read; reads every byte once.");
  command->add_flag("--rebuild", arguments->dataset.rebuild,
                    "Rebuild the index even if it is up to date.");
  command->add_flag("--json", arguments->json, "Print one JSON object for each dataset.");
  command->footer(kFooter);
  on_chosen(*command, arguments, context, run);
}

}  // namespace stoker::cli
