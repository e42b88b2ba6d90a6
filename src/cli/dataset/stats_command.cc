#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <ranges>

#include "bench/disk/bar.h"
#include "cli/dataset/dataset_arguments.h"
#include "cli/dataset/dataset_stats.h"
#include "cli/line_text.h"
#include "cli/registry.h"
#include "cli/result_writer.h"
#include "cli/work_progress.h"
#include "formats/json/json.h"
#include "stoker/units.h"

namespace stoker::cli {
namespace {

constexpr std::uint64_t kReadDefault = 10'000;
constexpr std::size_t kBarWidth = 40;
constexpr std::size_t kClassesShown = 20;
constexpr const char* kFooter =
    "Sizes of samples are those in the shards, headers and padding included; they come from the\n"
    "index, as the number of tokens does. For sizes of fields, and for classes (the numbers in a "
    "field\n\"cls\"), samples are read: all of them, or --limit of them, evenly spread.\n"
    "--json prints one object for each dataset.";

struct StatsArguments {
  DatasetArguments dataset;
  std::uint64_t limit = kReadDefault;
  bool json = false;
};

std::string render_histogram(const SizeHistogram& histogram) {
  const auto largest = std::ranges::max(histogram.counts);
  std::size_t first = histogram.counts.size();
  std::size_t last = 0;
  for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
    if (histogram.counts[i] == 0) continue;
    first = std::min(first, i);
    last = i;
  }
  std::string text = "\n  sample size      samples";
  for (std::size_t i = first; i <= last; ++i) {
    const std::uint64_t count = histogram.counts[i];
    const double share = static_cast<double>(count) / static_cast<double>(largest);
    text += fmt::format("\n  >= {:<9} {:>10}  {}", format_bytes(SizeHistogram::lowest_in(i)), count,
                        format_bar(share, kBarWidth));
    text.erase(text.find_last_not_of(' ') + 1);
  }
  return text;
}

std::string render_classes(const ClassStats& classes) {
  if (classes.counts.empty()) return "";
  const auto by_count = [](const auto& entry) { return entry.second; };
  const auto [least, most] = std::ranges::minmax(classes.counts | std::views::transform(by_count));
  std::string text = fmt::format("\n  classes (field cls) of these: {}, {} to {} samples each",
                                 classes.counts.size(), least, most);
  std::size_t shown = 0;
  for (const auto& [number, count] : classes.counts) {
    if (shown++ == kClassesShown) {
      text +=
          fmt::format("\n  and {} more (--json has all)", classes.counts.size() - kClassesShown);
      break;
    }
    text +=
        fmt::format("\n  {:>6} {:<13} {:>9}  {}", number, printable(classes.name_of(number)), count,
                    format_bar(static_cast<double>(count) / static_cast<double>(most), kBarWidth));
    text.erase(text.find_last_not_of(' ') + 1);
  }
  return text;
}

std::string render_tokens(const DatasetStats& stats) {
  if (!stats.tokens) return "";
  const TokenStats& tokens = *stats.tokens;
  return fmt::format("\n  tokens: {} ({}), {} to {} in a sample, {} on average", tokens.count,
                     tokens.dtype, tokens.min, tokens.max,
                     tokens.count / std::max<std::uint64_t>(1, stats.records.count));
}

std::string render_text(const std::string& name, const ShardDataset& dataset,
                        const DatasetStats& stats) {
  std::string text = fmt::format("{}: {}\n  checksums: {}", name, describe_dataset(dataset),
                                 explain_checks(dataset));
  if (stats.records.count == 0) return text;
  text += render_tokens(stats);
  text += render_histogram(stats.histogram);
  text += stats.read_count == stats.records.count
              ? "\n  fields of all samples:"
              : fmt::format("\n  fields of {}, evenly spread (--limit reads more):",
                            counted(stats.read_count, "sample"));
  text +=
      fmt::format("\n  {:<20} {:>9} {:>10} {:>10} {:>10}", "field", "count", "min", "mean", "max");
  for (const auto& [field, sizes] : stats.fields)
    text += fmt::format("\n  {:<20} {:>9} {:>10} {:>10} {:>10}", printable(field), sizes.count,
                        format_bytes(sizes.min_bytes), format_bytes(sizes.mean_bytes()),
                        format_bytes(sizes.max_bytes));
  return text + render_classes(stats.classes);
}

Json to_json(const SizeStats& sizes) {
  return {{"count", sizes.count},
          {"min_bytes", sizes.min_bytes},
          {"mean_bytes", sizes.mean_bytes()},
          {"max_bytes", sizes.max_bytes},
          {"total_bytes", sizes.total_bytes}};
}

std::string render_json(const std::string& name, const ShardDataset& dataset,
                        const DatasetStats& stats) {
  Json fields = Json::object();
  for (const auto& [field, sizes] : stats.fields) fields[field] = to_json(sizes);
  Json histogram = Json::array();
  for (std::size_t i = 0; i < stats.histogram.counts.size(); ++i)
    if (stats.histogram.counts[i] != 0)
      histogram.push_back(
          {{"from_bytes", SizeHistogram::lowest_in(i)}, {"count", stats.histogram.counts[i]}});
  Json document = {{"dataset", name},
                   {"format", dataset.index().format()},
                   {"samples", dataset.sample_count()},
                   {"shards", dataset.index().shards().size()},
                   {"size_bytes", shard_bytes_of(dataset)},
                   {"checks", checks_of(dataset)},
                   {"records", to_json(stats.records)},
                   {"histogram", std::move(histogram)},
                   {"read_samples", stats.read_count},
                   {"is_sampled", stats.read_count != dataset.sample_count()},
                   {"fields", std::move(fields)}};
  if (!stats.classes.counts.empty()) {
    document["classes"] = Json::array();
    for (const auto& [number, count] : stats.classes.counts)
      document["classes"].push_back(
          {{"number", number}, {"name", stats.classes.name_of(number)}, {"count", count}});
  }
  if (stats.tokens)
    document["tokens"] = {{"count", stats.tokens->count},
                          {"dtype", stats.tokens->dtype},
                          {"min", stats.tokens->min},
                          {"max", stats.tokens->max}};
  return to_line(document);
}

Status run(const StatsArguments& arguments, Context& context) {
  ResultWriter out(context);
  for (const std::vector<std::string>& patterns : group_datasets(arguments.dataset.uris)) {
    STOKER_ASSIGN(const std::shared_ptr<const ShardDataset> dataset,
                  open_dataset(patterns, arguments.dataset, context));
    STOKER_ASSIGN(const DatasetStats stats, gather_stats(*dataset, arguments.limit, context.stop));
    const std::string name = dataset_name(patterns, *dataset);
    STOKER_TRY(out.line(arguments.json ? render_json(name, *dataset, stats)
                                       : render_text(name, *dataset, stats)));
  }
  return out.flush();
}

}  // namespace

void add_stats_command(Command& stoker, Context& context) {
  Command* command =
      stoker.add_subcommand("stats", "Show what is in a dataset: sizes, fields, classes, tokens.");
  const auto arguments = std::make_shared<StatsArguments>();
  add_dataset_arguments(*command, arguments->dataset);
  command
      ->add_option("--limit", arguments->limit,
                   "Samples to read from each dataset to measure fields (default: 10000).")
      ->check(count_from(1));
  command->add_flag("--json", arguments->json, "Print one JSON object for each dataset.");
  command->footer(kFooter);
  on_chosen(*command, arguments, context, run);
}

}  // namespace stoker::cli
