#include <cstdint>
#include <memory>
#include <ostream>

#include "bench/gpu/gpu_bench.h"
#include "bench/gpu/render_gpu.h"
#include "cli/bench/command.h"
#include "cli/option_value.h"
#include "cli/progress_line.h"

namespace stoker::cli {
namespace {

constexpr const char* kDescription =
    "Measure how fast bytes reach a GPU and come back: from pinned and pageable memory, and from "
    "a\n"
    "file through a ring of pinned buffers, against what the PCI Express link can do.";

constexpr const char* kFooter =
    R"(Sizes are 1GB, 10GB and 100GB unless --size is given. A file that the disk or the page cache has no
room for is left out. The test file has the same size and is removed at the end. Its last blocks are read back from the GPU and compared. Without a GPU the command fails
and says so.

Examples:
  stoker bench gpu /data
  stoker bench gpu /data --size 100GB --threads 16 --json

Exit status: 0 measured, 1 failed (also without a GPU), 2 misused, 130 interrupted.)";

struct Typed {
  std::string path = ".";
  std::string size;
  std::uint32_t device = 0;
  std::uint64_t threads = 0;
  bool json = false;
  bool verbose = false;
};

Status run(const Typed& typed, Context& context) {
  GpuBenchOptions options{
      .path = typed.path, .device = static_cast<int>(typed.device), .threads = typed.threads};
  if (!typed.size.empty()) {
    STOKER_ASSIGN(const std::uint64_t size, parse_size_option("--size", typed.size));
    options.sizes = {size};
  }
  STOKER_ASSIGN(const CudaDriver* driver, CudaDriver::find());
  ProgressLine line(context, typed.verbose);
  const auto show = [&](const Progress& progress) { line.show(progress); };
  const Result<GpuReport> report =
      run_gpu_bench(options, *driver, posix_file_ops(), show, context.stop);
  line.clear();
  if (!report.ok()) return with_advice(report.status());
  context.out << (typed.json ? render_gpu_json(*report) : render_gpu_text(*report));
  return {};
}

}  // namespace

void add_bench_gpu_command(Command& bench, Context& context) {
  const auto typed = std::make_shared<Typed>();
  Command* gpu = bench.add_subcommand("gpu", kDescription);
  add_bench_directory(*gpu, typed->path, "Directory to write in (default: the current one).");
  gpu->add_option("--size", typed->size, "Bytes to copy and read (default: 1GB, 10GB, 100GB).");
  gpu->add_option("--device", typed->device, "Number of the GPU, from 0 (default: 0).");
  gpu->add_option("--threads", typed->threads,
                  "Threads that read the file (default: the cores, up to 16).");
  gpu->add_flag("--json", typed->json, "Print one JSON object instead of text.");
  gpu->add_flag("-v,--verbose", typed->verbose, "Print on stderr what is being measured.");
  gpu->footer(kFooter);
  on_chosen(*gpu, typed, context, run);
}

}  // namespace stoker::cli
