#pragma once

#include <string>

#include "observe/finding.h"
#include "observe/machine.h"
#include "observe/target.h"

namespace stoker {

/// Whether a disk rotates. The kernel's flag alone does not say: many virtual disks have it,
/// whatever they lie on. So a disk with the flag is measured, by reads of the device or of a large
/// file below the target, and the measurement decides; what there is to say is added to `findings`.
bool check_rotation(Machine& machine, const Target& target, const std::string& disk,
                    Findings& findings);

}  // namespace stoker
