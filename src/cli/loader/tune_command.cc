#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <thread>

#include "cli/loader/tune_report.h"
#include "cli/registry.h"
#include "cli/result_writer.h"
#include "stoker/units.h"

namespace stoker::cli {
namespace {

constexpr const char* kFooter =
    R"(Compares policies, then thread counts, then depths, in repeated runs of a fraction of a second. The
fastest setting is then measured against automatic in pairs. It is recommended if it is at least 5 %
faster, and faster in every pair or in 8 of 9. Otherwise automatic is recommended, which also adapts
when the load of the machine changes. Writes nothing but the index, if there is none.

Examples:
  stoker tune shards/ --batch-size 256
  stoker tune shards/ --batch-size 256 --cold --time 1min
  stoker tune shards/ --step-ms 40 --json

Exit status: 0 measured, 1 failed, 2 misused, 130 interrupted.)";

constexpr nanoseconds kTimeMin{1'000'000'000};
constexpr std::size_t kThreadsMax = 16;

struct TuneArguments {
  LoaderArguments loader;
  std::string time = "20s";
  bool cold = false;
  bool json = false;
};

Status run(const TuneArguments& arguments, Context& context) {
  TuneOptions options{.cold = arguments.cold};
  const Result<nanoseconds> time = parse_duration(arguments.time);
  if (!time.ok()) return time.status().with_context("--time");
  if (*time < kTimeMin)
    return Status(
        Code::invalid_argument,
        fmt::format("--time {}: nothing can be measured in less than 1s", arguments.time));
  options.time = *time;
  options.threads_max =
      std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, kThreadsMax);
  STOKER_ASSIGN(const PlannedRun plan, plan_loader(arguments.loader, context));
  STOKER_ASSIGN(const TuneReport report, search_settings(arguments.loader, plan, options, context));
  return write_out(context, arguments.json ? render_tune_json(arguments.loader, plan, report)
                                           : render_tune_text(arguments.loader, plan, report));
}

}  // namespace

void add_tune_command(Command& stoker, Context& context) {
  Command* command = stoker.add_subcommand(
      "tune", "Find the loader's threads, depth and policy for this machine, by measuring.");
  const auto arguments = std::make_shared<TuneArguments>();
  add_loader_arguments(*command, arguments->loader);
  command->add_option("--time", arguments->time, "Total time to spend (default: 20s).");
  command->add_flag(
      "--cold", arguments->cold,
      "Evict the shards from the page cache before each run; this affects other programs.");
  command->add_flag("--json", arguments->json, "Print one JSON object instead of text.");
  command->footer(kFooter);
  on_chosen(*command, arguments, context, run);
}

}  // namespace stoker::cli
