#include "cli/dataset/pack_arguments.h"

#include <fmt/format.h>

#include <charconv>

#include "base/shell_quote.h"
#include "cli/option_value.h"
#include "dataset/pack/field_losses.h"
#include "formats/json/json.h"
#include "formats/table/shard_formats.h"
#include "stoker/units.h"

namespace stoker::cli {
namespace {

Result<std::uint64_t> parse_number(std::string_view option, std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return Status(Code::invalid_argument,
                  fmt::format("{} \"{}\": not a whole number from 0 on", option, text));
  return value;
}

}  // namespace

void add_pack_options(Command& command, PackArguments& arguments) {
  command.add_option("--format", arguments.format,
                     "Format of the shards: " + describe_written_formats() + ".");
  command
      .add_option("--samples-per-shard", arguments.samples_per_shard,
                  "Maximum number of samples in a shard (default: as many as its size allows).")
      ->check(count_from(1));
  command.add_option("--shard-size", arguments.shard_size,
                     "Maximum size of a shard (default: 256MiB).");
  command
      .add_option("--threads", arguments.threads,
                  "Shards to write at a time (default: one for each core).")
      ->check(count_between(1U, 1024U));
  command.add_option("--shuffle-seed", arguments.shuffle_seed,
                     "Shuffle the samples; the same seed gives the same shards.");
  command.add_option(
      "--prefix", arguments.prefix,
      "Prefix of the shards' names (default: shard); not for MDS, which has its own names.");
  command.add_option(
      "--task", arguments.task,
      "I/N: pack part I (from 0) of N, so that N processes share the work: every N-th shard, "
      "or adjacent rows of what Python reads. Run --merge when all parts are done.");
  command
      .add_option("--staging", arguments.staging,
                  "If DST is a bucket: a directory of this machine that has room for all shards, "
                  "which are made there first (default: below ~/.cache/stoker).")
      ->as_path();
  command.add_flag("--json", arguments.json, "Print one JSON object.");
}

Status parse_task(const std::string& text, PackOptions& options) {
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos)
    return Status(Code::invalid_argument, "--task \"" + text + "\": not of the form I/N, as 0/8");
  STOKER_ASSIGN(options.task, parse_number("--task", std::string_view(text).substr(0, slash)));
  STOKER_ASSIGN(options.task_count,
                parse_number("--task", std::string_view(text).substr(slash + 1)));
  if (options.task >= options.task_count)
    return Status(Code::invalid_argument,
                  "--task \"" + text + "\": I counts from 0 to N - 1, as 0/8 to 7/8");
  return {};
}

Result<PackOptions> pack_options_from(const PackArguments& arguments, Context& context,
                                      WorkProgress& progress) {
  PackOptions options;
  if (arguments.format.empty())
    return Status(Code::invalid_argument, "--format is needed: " + list_written_formats(" or "));
  options.plan.format = arguments.format;
  options.plan.samples_per_shard = arguments.samples_per_shard;
  options.plan.prefix = arguments.prefix;
  if (!arguments.shard_size.empty()) {
    STOKER_ASSIGN(options.plan.shard_bytes,
                  parse_size_option("--shard-size", arguments.shard_size));
  }
  if (!arguments.shuffle_seed.empty()) {
    STOKER_ASSIGN(options.plan.shuffle_seed,
                  parse_number("--shuffle-seed", arguments.shuffle_seed));
  }
  if (!arguments.task.empty()) STOKER_TRY(parse_task(arguments.task, options));
  options.thread_count = arguments.threads;
  options.stop = context.stop;
  options.progress = [&progress](const PackProgress& now) {
    progress.show({.done = now.samples_done,
                   .count = now.sample_count,
                   .done_before = now.samples_found,
                   .bytes = now.bytes_done});
  };
  return options;
}

namespace {

std::string render(const PackReport& report, const std::string& directory, bool json) {
  if (json) {
    const Json document = {{"directory", directory},          {"format", report.format},
                           {"shards", report.shard_count},    {"samples", report.sample_count},
                           {"size_bytes", report.size_bytes}, {"shards_found", report.shards_found},
                           {"complete", report.is_complete}};
    return document.dump() + "\n";
  }
  std::string text = fmt::format(
      "{}: {} in {} ({}), {}", directory, counted(report.sample_count, "sample"),
      counted(report.shard_count, "shard"), report.format, format_bytes(report.size_bytes));
  if (report.shards_found != 0)
    text += fmt::format("; {} there already", counted(report.shards_found, "shard"));
  if (!report.is_complete)
    text +=
        fmt::format("\nwhen all tasks are done: stoker pack --merge {}", shell_quote(directory));
  return text + "\n";
}

}  // namespace

void write_pack_report(Context& context, const PackReport& report, const std::string& directory,
                       bool json) {
  for (const std::string& remark : remarks_on(report.losses)) context.err << remark << '\n';
  context.out << render(report, directory, json);
}

}  // namespace stoker::cli
