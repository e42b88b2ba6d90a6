#include <memory>
#include <ostream>

#include "bench/checkpoint/checkpoint_bench.h"
#include "bench/checkpoint/render_checkpoint.h"
#include "cli/bench/command.h"
#include "cli/option_value.h"
#include "cli/progress_line.h"

namespace stoker::cli {
namespace {

constexpr const char* kDescription =
    "Save and restore checkpoints below a directory: how long a save blocks training, when it is\n"
    "durable, and how fast a restore is, cold and warm.";

constexpr const char* kFooter =
    R"(The tensors are in host memory, and every page of them changes between two saves. Needs twice --size
in memory and on disk. What it writes is always removed; after a SIGKILL, by the next run.
STOKER_ENGINE names the engine.

Examples:
  stoker bench checkpoint /data
  stoker bench checkpoint /data --size 16GiB --saves 5 --json

Exit status: 0 measured, 1 failed, 2 misused, 130 interrupted.)";

struct Typed {
  std::string path = ".";
  std::string size;
  std::uint32_t saves = CheckpointBenchOptions().save_count;
  bool json = false;
  bool verbose = false;
};

Status run(const Typed& typed, Context& context) {
  CheckpointBenchOptions options{.path = typed.path, .save_count = typed.saves};
  if (!typed.size.empty()) {
    STOKER_ASSIGN(options.size_bytes, parse_size_option("--size", typed.size));
  }
  STOKER_ASSIGN(options.engine, try_engine());
  ProgressLine line(context, typed.verbose);
  const auto show = [&](const Progress& progress) { line.show(progress); };
  const Result<CheckpointReport> report =
      run_checkpoint_bench(options, posix_file_ops(), show, context.stop);
  line.clear();
  if (!report.ok()) return with_advice(report.status());
  context.out << (typed.json ? render_checkpoint_json(*report) : render_checkpoint_text(*report));
  return {};
}

}  // namespace

void add_bench_checkpoint_command(Command& bench, Context& context) {
  const auto typed = std::make_shared<Typed>();
  Command* const command = bench.add_subcommand("checkpoint", kDescription);
  add_bench_directory(*command, typed->path, "Directory to write in (default: the current one).");
  command->add_option("--size", typed->size, "Size of all tensors together (default: 4GiB).");
  command->add_option("--saves", typed->saves, "Number of saves (default: 3).")
      ->check(count_between(1U, 10'000U));
  command->add_flag("--json", typed->json, "Print one JSON object instead of text.");
  command->add_flag("-v,--verbose", typed->verbose, "Print on stderr what is being measured.");
  command->footer(kFooter);
  on_chosen(*command, typed, context, run);
}

}  // namespace stoker::cli
