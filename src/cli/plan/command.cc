#include "cli/plan/command.h"

#include <fmt/format.h>

#include "cli/registry.h"
#include "io/files/text_file.h"
#include "plan/kinds/table.h"
#include "plan/toml.h"

namespace stoker::cli {
namespace {

constexpr const char* kDescription =
    "Calculate what storage must do, and what it costs, before it is bought or a job is started.";

constexpr const char* kFooter =
    R"(Each answer has its steps, what binds, and what would change it. GB is 10^9 bytes, GiB is 2^30.
A quantity needs its unit: 130KB, 6.5GB/s, 200ms, 48/d, 95%, 3USD/h. --from NAME takes values of a
device that `stoker plan devices` lists.

Examples:
  stoker plan read --gpus 8 --batch 256 --sample 130KB --step 200ms
  stoker plan checkpoint --parameters 70e9 --drives 8 --write-rate 6.5GB/s
  stoker plan interval --save 60s --mtbf 3h
  stoker plan endurance --size 140GB --writes 48/d --tbw 700TB
  stoker plan cliff --size 140GB --from example-qlc-4tb
  stoker plan targets --write-size 2TB --write-time 10s --target-rate 4GB/s
  stoker plan stall --gpus 512 --price 3USD/h --stall 60s --stalls 4/h --time 7d
  stoker plan cluster --example > workload.toml
  stoker plan cluster workload.toml)";

}  // namespace

Result<std::string> read_named_file(std::string_view option,
                                    const std::optional<std::string>& path) {
  if (!path) return std::string();
  const Result<std::string> text = read_text_file(posix_file_ops(), *path, plan::kTomlBytesMax);
  if (text.ok()) return *text;
  // A file that cannot be read is a mistake of the caller, and not a damaged object of ours.
  return Status(
      text.status().code() == Code::corrupt ? Code::invalid_argument : text.status().code(),
      fmt::format("{}: {}", option, text.status().message()));
}

void add_plan_command(Command& stoker, Context& context) {
  Command* command = stoker.add_subcommand("plan", kDescription);
  command->require_subcommand();
  command->footer(kFooter);
  for (const plan::Kind* kind : plan::kinds()) add_plan_kind_command(*command, context, *kind);
  add_plan_devices_command(*command, context);
}

}  // namespace stoker::cli
