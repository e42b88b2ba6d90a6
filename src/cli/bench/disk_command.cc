#include <algorithm>
#include <memory>
#include <ostream>
#include <vector>

#include "bench/disk/disk_bench.h"
#include "bench/disk/render_disk.h"
#include "cli/bench/command.h"
#include "cli/option_value.h"
#include "cli/progress_line.h"
#include "stoker/units.h"

namespace stoker::cli {
namespace {

constexpr const char* kDescription =
    "Measure the disk under a directory: sequential and random transfers through the page cache,\n"
    "past it and by mmap, cold and warm; fsync; small files. Cold means that the page cache was\n"
    "checked to hold nothing of the file.";

constexpr const char* kFooter =
    R"(Scratch files are always removed; after a SIGKILL, by the next run.
STOKER_ENGINE names the engine when --engine is not given.

Examples:
  stoker bench disk --quick
  stoker bench disk /data --size 16GiB --json > disk.json
  stoker bench disk --policy direct --only rand_read --block 4KiB --depth 64

Exit status: 0 measured, 1 failed, 2 misused, 130 interrupted.)";

/// The options as they were typed.
struct Typed {
  std::string path = ".";
  std::string size;
  bool quick = false;
  std::string engine;
  std::string policy;
  bool json = false;
  bool verbose = false;
  std::vector<std::string> only;
  std::string block;
  std::uint32_t depth = 0;
  std::string time;
};

void apply_quick(DiskBenchOptions& options) {
  options.size_bytes = std::uint64_t{256} << 20;
  options.time_per_case = std::chrono::milliseconds(120);
  options.small_file_count_max = 2'000;
}

Result<DiskBenchOptions> options_from(const Typed& typed) {
  DiskBenchOptions options{.path = typed.path};
  if (typed.quick) apply_quick(options);
  if (!typed.size.empty()) {
    STOKER_ASSIGN(options.size_bytes, parse_size_option("--size", typed.size));
  }
  STOKER_ASSIGN(options.engine, choose_engine(typed.engine));
  if (!typed.policy.empty()) {
    STOKER_ASSIGN(options.policy, named("--policy", parse_access_policy(typed.policy)));
  }
  for (const std::string& name : typed.only) {
    STOKER_ASSIGN(const CaseKind kind, named("--only", parse_case_kind(name)));
    options.only.push_back(kind);
  }
  if (!typed.block.empty()) {
    STOKER_ASSIGN(const std::uint64_t block, parse_size_option("--block", typed.block));
    options.block_bytes = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(block, DiskBenchOptions::kBlockBytesMax + 1));
  }
  if (typed.depth != 0) options.depth = typed.depth;
  if (!typed.time.empty()) {
    STOKER_ASSIGN(options.time_per_case, named("--time", parse_duration(typed.time)));
  }
  return options;
}

Status run(const Typed& typed, Context& context) {
  STOKER_ASSIGN(const DiskBenchOptions options, options_from(typed));
  ProgressLine line(context, typed.verbose);
  const auto show = [&](const Progress& progress) { line.show(progress); };
  const Result<DiskReport> report = run_disk_bench(options, posix_file_ops(), show, context.stop);
  line.clear();
  if (!report.ok()) return with_advice(report.status());
  context.out << (typed.json ? render_disk_json(*report)
                             : render_disk_table(*report, context.out_columns));
  return {};
}

}  // namespace

void add_bench_disk_command(Command& bench, Context& context) {
  const auto typed = std::make_shared<Typed>();
  Command* disk = bench.add_subcommand("disk", kDescription);
  add_bench_directory(*disk, typed->path, "Directory to measure in (default: the current one).");
  disk->add_option("--size", typed->size,
                   "Size of the test file (default: 4GiB; 256MiB with --quick).");
  disk->add_flag("--quick", typed->quick, "Finish in a few seconds instead of a minute.");
  disk->add_option("--engine", typed->engine,
                   "I/O engine: auto, uring, threads or sync (default: auto).");
  disk->add_option("--policy", typed->policy,
                   "Measure one policy: automatic, buffered, direct, drop_behind or mmap\n"
                   "(default: compare buffered, direct and mmap).");
  disk->add_flag("--json", typed->json, "Print one JSON object instead of the table.");
  disk->add_flag("-v,--verbose", typed->verbose, "Print on stderr what is being measured.");
  const std::string single = "Single cases";
  disk->add_option(
          "--only", typed->only,
          "Cases to measure, comma-separated: seq_write, seq_read, rand_read, fsync, fdatasync,\n"
          "small_create, small_read.")
      ->delimiter(',')
      ->one_value_each()  // or it would take a directory after it
      ->group(single);
  disk->add_option("--block", typed->block, "Block size instead of the usual ones.")->group(single);
  disk->add_option("--depth", typed->depth, "Queue depth instead of the usual ones.")
      ->check(count_between(std::uint32_t{1}, DiskBenchOptions::kDepthMax))
      ->group(single);
  disk->add_option("--time", typed->time,
                   "Maximum time per case (default: 1500ms; 120ms with --quick).")
      ->group(single);
  disk->footer(kFooter);
  on_chosen(*disk, typed, context, run);
}

}  // namespace stoker::cli
