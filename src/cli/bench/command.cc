#include "cli/bench/command.h"

#include <fmt/format.h>

#include <cerrno>
#include <ostream>

#include "cli/registry.h"

namespace stoker::cli {
namespace {

constexpr const char* kFooter = R"(Examples:
  stoker bench disk --quick        some seconds, 256 MiB in this directory
  stoker bench disk /data          about a minute, 4 GiB
  stoker bench cliff /data         how much the drive absorbs at full speed
  stoker bench checkpoint /data    how long a save blocks, how fast a restore is
  stoker bench gpu /data           how fast bytes reach a GPU)";

/// Returns what to do about an error; empty if the message says it already.
std::string_view advice_for(const Status& status) {
  switch (status.code()) {
    case Code::denied: return "; choose a directory you may write to";
    case Code::not_found: return "; DIR must be a directory that exists";
    case Code::no_space:
      return status.os_error() == 0 ? ""
                                    : "; write less (--size, --bytes) or choose another directory";
    case Code::io_error:
      if (status.os_error() == EFBIG) return "; write less (--size, --bytes) or see `ulimit -f`";
      return "; the device or its filesystem failed: look at the kernel log";
    case Code::cancelled: return "; nothing was left behind";
    default: return "";
  }
}

}  // namespace

void add_bench_directory(Command& command, std::string& directory, const char* help) {
  const Check check = {.test = [](const std::string& typed) {
    return std::string(typed.empty() ? "is empty: name a directory" : "");
  }};
  const Option* const option = command.add_option("DIR", directory, help)->as_path()->check(check);
  command.add_old_name("--path", option, directory)->as_path();
}

Status with_advice(const Status& status) {
  return {status.code(), std::string(status.message()).append(advice_for(status)),
          status.os_error()};
}

void add_bench_command(Command& stoker, Context& context) {
  Command* bench = stoker.add_subcommand("bench", "Measure storage the way training uses it.");
  bench->require_subcommand();
  bench->footer(kFooter);
  add_bench_disk_command(*bench, context);
  add_bench_cliff_command(*bench, context);
  add_bench_checkpoint_command(*bench, context);
  add_bench_gpu_command(*bench, context);
}

}  // namespace stoker::cli
