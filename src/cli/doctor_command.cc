#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <ostream>
#include <string>
#include <vector>

#include "cli/registry.h"
#include "gpu/direct_reads.h"
#include "observe/checks/lustre.h"
#include "observe/doctor.h"
#include "observe/render_findings.h"

namespace stoker::cli {
namespace {

constexpr const char* kFooter =
    "Exit status: 0 no problem found (there may be warnings), 1 problems found or a path cannot "
    "be\n"
    "examined, 2 misused. The page \"stoker doctor\" of the documentation lists everything it "
    "looks at.";

struct DoctorArguments {
  std::vector<std::string> paths;
  std::string role = "both";
  bool json = false;
  bool set_stripe = false;
};

Role parse_role(const std::string& name) {  // CLI11 accepts no other name
  if (name == "dataset") return Role::dataset;
  return name == "checkpoint" ? Role::checkpoint : Role::both;
}

/// Prints the layout command for each path, then runs it.
Status set_stripes(Machine& machine, const DoctorOptions& options, std::ostream& out) {
  for (const std::string& path : options.paths) {
    STOKER_ASSIGN(const Target target, make_target(machine, path, options.role));
    STOKER_ASSIGN(const std::vector<std::string> argv, plan_set_stripe(machine, target));
    out << format_command(argv) << std::endl;  // flushed: the command may take a while
    const Result<CommandResult> result = machine.run(argv, kCommandTimeout);
    if (!result.ok())
      return result.status().with_context("install the Lustre client utilities and try again");
    if (result->exit_code != 0)
      return Status(Code::io_error,
                    fmt::format("lfs setstripe ended with {}; run the command above by hand to see "
                                "why",
                                result->exit_code));
  }
  return {};
}

/// Tries what the settings cannot show: whether cuFile reads each path straight to a GPU.
Findings probe_gpu_reads(const std::vector<std::string>& paths) {
  Findings findings;
  if (!CudaDriver::find().ok()) return findings;  // check_gpus() has reported it
  for (const std::string& path : paths) {
    if (!std::filesystem::is_directory(path)) continue;
    const DirectReads direct = probe_direct_reads(path);
    findings.push_back(
        {.subject = "cuFile " + path,
         .seen = std::string(direct.are_real ? "reads straight into GPU memory: "
                                             : "no reads straight into GPU memory: ") +
                 direct.reason});
  }
  return findings;
}

Status run(const DoctorArguments& arguments, Context& context) {
  const std::unique_ptr<Machine> machine = make_host_machine();
  DoctorOptions options{
      .paths = arguments.paths, .role = parse_role(arguments.role), .stop = context.stop};
  if (options.paths.empty()) options.paths = {"."};
  if (arguments.set_stripe) return set_stripes(*machine, options, context.out);

  STOKER_ASSIGN(Findings findings, examine(*machine, options));
  std::ranges::move(probe_gpu_reads(options.paths), std::back_inserter(findings));
  const bool color = context.out_is_terminal && std::getenv("NO_COLOR") == nullptr;
  context.out << (arguments.json ? render_json(findings) : render_text(findings, {.color = color}));
  const std::size_t problem_count =
      count_by_severity(findings)[static_cast<std::size_t>(Severity::problem)];
  if (problem_count != 0) context.exit_code = kExitFailed;
  return {};
}

}  // namespace

void add_doctor_command(Command& stoker, Context& context) {
  Command* command = stoker.add_subcommand(
      "doctor", "Find what slows down or endangers training on this machine, and how to fix it.");
  const auto arguments = std::make_shared<DoctorArguments>();
  command
      ->add_option("PATH", arguments->paths, "Paths to examine (default: the current directory).")
      ->as_path();
  Option* json = command->add_flag("--json", arguments->json, "Print one JSON object.");
  command
      ->add_option("--role", arguments->role,
                   "What the paths are for: dataset, checkpoint or both (default: both).")
      ->check(one_of({"dataset", "checkpoint", "both"}));
  command
      ->add_flag("--set-stripe", arguments->set_stripe,
                 "Set the Lustre layout of each PATH, a directory, for its role: print the `lfs "
                 "setstripe` command and run it.")
      ->excludes(json);
  command->footer(kFooter);
  on_chosen(*command, arguments, context, run);
}

}  // namespace stoker::cli
