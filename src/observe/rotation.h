#pragma once

#include <string>

#include "observe/finding.h"
#include "observe/machine.h"
#include "observe/target.h"

namespace stoker {

/// Whether a disk rotates. The kernel's flag alone does not decide it, because many virtual disks
/// have the flag whatever they are stored on. A disk with the flag is therefore measured, by
/// reading the device or a large file below the target. Adds the result to `findings`.
bool check_rotation(Machine& machine, const Target& target, const std::string& disk,
                    Findings& findings);

}  // namespace stoker
