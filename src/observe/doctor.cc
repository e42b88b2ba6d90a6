#include "observe/doctor.h"

#include <array>
#include <iterator>
#include <utility>

#include "observe/checks.h"

namespace stoker {
namespace {

constexpr std::array kMachineChecks{check_uring,         check_locked_memory, check_open_files,
                                    check_shared_memory, check_dirty_limits,  check_huge_pages,
                                    check_numa,          check_pressure,      check_nvme_health,
                                    check_nvme_fabrics,  check_gpus,          check_peer_to_peer};

constexpr std::array kPathChecks{
    check_filesystem, check_mount_options, check_block_device, check_network_read_ahead,
    check_space,      check_inodes,        check_census,       check_zfs,
    check_gpu_direct, check_lustre_layout, check_lustre_load};

void append(Findings more, Findings& findings) {
  findings.insert(findings.end(), std::make_move_iterator(more.begin()),
                  std::make_move_iterator(more.end()));
}

}  // namespace

Result<Findings> examine(Machine& machine, const DoctorOptions& options) {
  const auto stopped = [&] { return options.stop.stop_requested(); };
  const Status cancelled(Code::cancelled, "interrupted");

  std::vector<Target> targets;  // all of them first, to report a misspelled path at once
  for (const std::string& path : options.paths) {
    STOKER_ASSIGN(Target target, make_target(machine, path, options.role));
    targets.push_back(std::move(target));
  }
  Findings findings;
  for (const auto check : kMachineChecks) {
    if (stopped()) return cancelled;
    append(check(machine), findings);
  }
  for (const Target& target : targets) {
    for (const auto check : kPathChecks) {
      if (stopped()) return cancelled;
      append(check(machine, target), findings);
    }
  }
  return findings;
}

}  // namespace stoker
