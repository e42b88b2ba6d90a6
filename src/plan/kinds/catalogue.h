/// \file
/// The catalogue of devices: tables of TOML whose keys are fields of plans.
///
///     [[ssd]]
///     name = "samsung-pm9a3-7.68tb"
///     read_rate = "6.5GB/s"
///     source = "maker's announcement, 2020-05"
///
/// A plan takes from a device what it has fields for. Every entry has a name and a source, with its
/// date; docs/planning.md lists the keys.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "stoker/plan.h"
#include "stoker/status.h"

namespace stoker::plan {

struct Device {
  std::string kind;  ///< "ssd", "gpu", "nic", ...
  std::string name;
  std::string source;
  std::vector<Setting> settings;  ///< Its name is their origin.
};

/// Returns the devices of a catalogue. `invalid_argument` names the line: an entry without a name
/// or a source, a duplicate name, a key that is no field of any plan, a value that is not of its
/// unit.
Result<std::vector<Device>> parse_catalogue(std::string_view text, std::string_view what);

/// Returns the devices of the user's catalogue, which may be empty, then Stoker's own. A device of
/// the user replaces ours of the same name.
Result<std::vector<Device>> all_devices(std::string_view users_catalogue);

}  // namespace stoker::plan
