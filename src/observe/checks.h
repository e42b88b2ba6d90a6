/// \file
/// The checks of the doctor: one function per subject, whose result depends only on its arguments.
/// Each returns at least one finding if its subject exists, `ok` if all is well. None fails: a
/// finding reports what could not be read.
#pragma once

#include "observe/finding.h"
#include "observe/machine.h"
#include "observe/target.h"

namespace stoker {

Findings check_dirty_limits(Machine& machine);
Findings check_huge_pages(Machine& machine);
Findings check_shared_memory(Machine& machine);
Findings check_locked_memory(Machine& machine);
Findings check_open_files(Machine& machine);
Findings check_uring(Machine& machine);
Findings check_numa(Machine& machine);
Findings check_pressure(Machine& machine);
Findings check_nvme_health(Machine& machine);
Findings check_nvme_fabrics(Machine& machine);
Findings check_gpus(Machine& machine);
Findings check_peer_to_peer(Machine& machine);

Findings check_filesystem(Machine& machine, const Target& target);
Findings check_mount_options(Machine& machine, const Target& target);
Findings check_block_device(Machine& machine, const Target& target);
Findings check_network_read_ahead(Machine& machine, const Target& target);
Findings check_space(Machine& machine, const Target& target);
Findings check_inodes(Machine& machine, const Target& target);
Findings check_census(Machine& machine, const Target& target);
Findings check_zfs(Machine& machine, const Target& target);
Findings check_lustre_layout(Machine& machine, const Target& target);
Findings check_lustre_load(Machine& machine, const Target& target);
Findings check_gpu_direct(Machine& machine, const Target& target);

}  // namespace stoker
