#include <fmt/format.h>

#include <algorithm>

#include "observe/checks.h"
#include "observe/text_fields.h"
#include "stoker/units.h"

namespace stoker {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr std::uint64_t kTmpfsMagic = 0x01021994;

}  // namespace

Findings check_shared_memory(Machine& machine) {
  const std::string subject = "/dev/shm";
  const std::uint64_t wanted_gib =
      std::max<std::uint64_t>(memory_total_bytes(machine) / 2 / kGiB, 1);
  const Result<VolumeStats> volume = machine.volume("/dev/shm");
  if (!volume.ok() || volume->type_magic != kTmpfsMagic)
    return {{.severity = Severity::warning,
             .subject = subject,
             .seen = "no tmpfs is mounted there",
             .why = "torch DataLoader workers and NCCL pass data through it and fail without it "
                    "(Stoker's own loader does not use it).",
             .fix = fmt::format("mkdir -p /dev/shm && mount -t tmpfs -o size={}G tmpfs /dev/shm",
                                wanted_gib)}};

  const std::uint64_t block = volume->block_bytes;
  const std::uint64_t total = volume->blocks_total * block;
  const std::uint64_t available = volume->blocks_available * block;
  const std::string seen =
      total == 0 ? "no size limit"
                 : fmt::format("{} free of {}", format_bytes(available), format_bytes(total));
  if (total != 0 && total < kGiB)
    return {{.severity = Severity::warning,
             .subject = subject,
             .seen = seen,
             .why = "torch DataLoader workers die with a bus error when it is full; containers get "
                    "64 MiB by default (Stoker's own loader does not use it).",
             .fix = fmt::format("mount -o remount,size={0}G /dev/shm   # container: docker run "
                                "--shm-size={0}g",
                                wanted_gib)}};
  if (total != 0 && available < total / 10)
    return {{.severity = Severity::warning,
             .subject = subject,
             .seen = seen,
             .why =
                 "Files of a killed job stay there until they are removed, and the next DataLoader "
                 "dies with a bus error.",
             .fix = "ls -lt /dev/shm; lsof +D /dev/shm   # remove files that no process has open"}};
  return {{.subject = subject, .seen = seen}};
}

}  // namespace stoker
