#include <memory>
#include <ostream>

#include "bench/cliff/cliff_bench.h"
#include "bench/cliff/render_cliff.h"
#include "cli/bench/command.h"
#include "cli/option_value.h"
#include "cli/progress_line.h"

namespace stoker::cli {
namespace {

constexpr const char* kDescription =
    "Write incompressible data until the drive becomes slower: how much it absorbs before that,\n"
    "both rates, and the limit that avoids the drop.";

constexpr const char* kFooter =
    R"(Writes up to --bytes once, which wears flash a little. The file is always removed. A rate that
only declines slowly is not a cliff.

Examples:
  stoker bench cliff /data
  stoker bench cliff /data --bytes 200GiB --json

Exit status: 0 measured (with or without a cliff), 1 failed, 2 misused, 130 interrupted.)";

struct Typed {
  std::string path = ".";
  std::string bytes;
  std::string engine;
  std::string policy;
  bool json = false;
  bool verbose = false;
};

Result<CliffBenchOptions> options_from(const Typed& typed) {
  CliffBenchOptions options{.path = typed.path};
  if (!typed.bytes.empty()) {
    STOKER_ASSIGN(options.bytes_max, parse_size_option("--bytes", typed.bytes));
    if (options.bytes_max == 0)
      return Status(Code::invalid_argument, "--bytes 0 writes nothing: give a size");
  }
  STOKER_ASSIGN(options.engine, choose_engine(typed.engine));
  if (!typed.policy.empty()) {
    STOKER_ASSIGN(options.policy, named("--policy", parse_cache_policy(typed.policy)));
  }
  return options;
}

Status run(const Typed& typed, Context& context) {
  STOKER_ASSIGN(const CliffBenchOptions options, options_from(typed));
  ProgressLine line(context, typed.verbose);
  const auto show = [&](const Progress& progress) { line.show(progress); };
  const Result<CliffReport> report = run_cliff_bench(options, posix_file_ops(), show, context.stop);
  line.clear();
  if (!report.ok()) return with_advice(report.status());
  context.out << (typed.json ? render_cliff_json(*report) : render_cliff_text(*report));
  return {};
}

}  // namespace

void add_bench_cliff_command(Command& bench, Context& context) {
  const auto typed = std::make_shared<Typed>();
  Command* cliff = bench.add_subcommand("cliff", kDescription);
  add_bench_directory(*cliff, typed->path, "Directory to write in (default: the current one).");
  cliff->add_option("--bytes", typed->bytes,
                    "Maximum number of bytes to write (default: a quarter of the free space, up to "
                    "64GiB).");
  cliff->add_option("--engine", typed->engine,
                    "I/O engine: auto, uring, threads or sync (default: auto).");
  cliff->add_option(
      "--policy", typed->policy,
      "Cache policy: automatic, buffered, direct or drop_behind (default: automatic).");
  cliff->add_flag("--json", typed->json, "Print one JSON object instead of text.");
  cliff->add_flag("-v,--verbose", typed->verbose, "Print on stderr what is being measured.");
  cliff->footer(kFooter);
  on_chosen(*cliff, typed, context, run);
}

}  // namespace stoker::cli
