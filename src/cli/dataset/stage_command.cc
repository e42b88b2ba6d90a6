#include <fmt/format.h>

#include <memory>

#include "cli/dataset/cache_arguments.h"
#include "cli/dataset/dataset_arguments.h"
#include "cli/line_text.h"
#include "cli/registry.h"
#include "cli/result_writer.h"
#include "cli/work_progress.h"
#include "dataset/cache_stage.h"
#include "formats/json/json.h"
#include "stoker/units.h"

namespace stoker::cli {
namespace {

constexpr const char* kFooter =
    R"(Reads the shards once, in stored order, into the cache of this machine, so that training begins at
the speed of its disk. What the cache has already is not read again. If the dataset is larger than the
cache, only a part of it is staged.

Examples:
  stoker stage /lustre/train --cache /nvme/cache --cache-size 2TiB
  stoker stage "/nfs/{000..099}.tar" --cache /nvme --cache-size 200GiB --json

Exit status: 0 done, 1 failed, 2 misused, 130 interrupted.)";

struct StageArguments {
  DatasetArguments dataset;
  CacheArguments cache;
  bool json = false;
};

std::string render(const StageArguments& arguments, const std::string& name,
                   const StageReport& report) {
  if (arguments.json)
    return to_line(Json{{"dataset", name},
                        {"cache", arguments.cache.directory},
                        {"dataset_bytes", report.dataset_bytes},
                        {"staged_bytes", report.staged_bytes},
                        {"fetched_bytes", report.fetched_bytes}});
  std::string text =
      fmt::format("{}: {} of {} in {}, {} read from the source", printable(name),
                  format_bytes(report.staged_bytes), format_bytes(report.dataset_bytes),
                  printable(arguments.cache.directory), format_bytes(report.fetched_bytes));
  if (report.staged_bytes < report.dataset_bytes) text += "; the cache has no room for the rest";
  return text;
}

Status run(const StageArguments& arguments, Context& context) {
  if (arguments.cache.directory.empty())
    return Status(Code::invalid_argument, "name the cache with --cache and --cache-size");
  STOKER_ASSIGN(const std::shared_ptr<ShardCache> cache, open_cache(arguments.cache, context));
  DatasetArguments told = arguments.dataset;
  told.cache = cache;
  ResultWriter out(context);
  for (const std::vector<std::string>& patterns : group_datasets(told.uris)) {
    STOKER_ASSIGN(const std::shared_ptr<const ShardDataset> dataset,
                  open_dataset(patterns, told, context));
    WorkProgress progress(context, "staging", "bytes");
    const StageOptions options{
        .progress =
            [&progress](const StageOptions::Progress& now) {
              progress.show(
                  {.done = now.done_bytes, .count = now.size_bytes, .bytes = now.done_bytes});
            },
        .stop = context.stop};
    const Result<StageReport> report = stage_shards(*dataset, options);
    progress.clear();
    if (!report.ok()) return report.status();
    STOKER_TRY(out.line(render(arguments, dataset_name(patterns, *dataset), *report)));
  }
  return out.flush();
}

}  // namespace

void add_stage_command(Command& stoker, Context& context) {
  Command* const command =
      stoker.add_subcommand("stage", "Bring the shards of a dataset into a cache on this machine.");
  const auto arguments = std::make_shared<StageArguments>();
  add_dataset_arguments(*command, arguments->dataset);
  add_cache_options(*command, arguments->cache);
  command->add_flag("--json", arguments->json, "Print one JSON object for each dataset.");
  command->footer(kFooter);
  on_chosen(*command, arguments, context, run);
}

}  // namespace stoker::cli
