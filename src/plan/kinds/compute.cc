#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "plan/kinds/catalogue.h"
#include "plan/kinds/table.h"
#include "plan/kinds/workload.h"

namespace stoker::plan {
namespace {

bool is_set(const std::vector<Setting>& settings, std::string_view name) {
  return std::ranges::find(settings, name, &Setting::name) != settings.end();
}

/// Adds what the device has and the plan still misses. Returns how many fields it has in common.
std::size_t add_device(const Device& device, const Kind& kind, std::vector<Setting>& settings) {
  std::size_t known = 0;
  for (const Setting& setting : device.settings) {
    if (kind.find(setting.name) == nullptr) continue;
    ++known;
    if (!is_set(settings, setting.name)) settings.push_back(setting);
  }
  return known;
}

Result<const Device*> find_device(const std::vector<Device>& devices, std::string_view name) {
  const auto found = std::ranges::find(devices, name, &Device::name);
  if (found != devices.end()) return &*found;
  return Status(Code::invalid_argument,
                fmt::format("from: there is no device \"{}\"; `stoker plan devices` lists them",
                            quotable(name)));
}

/// A value that was refused and that nobody typed: says where it is from.
Status with_origin(const Status& status, const std::vector<Setting>& settings) {
  const std::string_view message = status.message();
  const std::string_view name = message.substr(0, message.find(':'));
  const auto setting = std::ranges::find(settings, name, &Setting::name);
  if (setting == settings.end() || setting->origin == "given") return status;
  return {status.code(),
          fmt::format("{} ({}){}", name, setting->origin, message.substr(name.size()))};
}

}  // namespace

Result<Answer> compute(const Request& request) {
  const Kind* kind = find_kind(request.kind);
  if (kind == nullptr) {
    std::vector<std::string_view> names;
    for (const Kind* known : kinds()) names.push_back(known->name);
    return Status(Code::invalid_argument,
                  fmt::format("kind: \"{}\" is not one of {}", quotable(request.kind),
                              fmt::join(names, ", ")));
  }
  std::set<std::string_view> seen;
  for (const Setting& setting : request.settings)
    if (!seen.insert(setting.name).second) return refuse_field(setting.name, "is set twice");
  std::vector<Setting> settings = request.settings;
  STOKER_ASSIGN(const std::vector<Device> devices, all_devices(request.catalogue));
  if (!request.workload.empty()) {
    STOKER_ASSIGN(std::vector<Setting> workload, parse_workload(request.workload, *kind, devices));
    for (Setting& setting : workload)
      if (!is_set(settings, setting.name)) settings.push_back(std::move(setting));
  }
  for (const std::string& name : request.devices) {
    STOKER_ASSIGN(const Device* const device, find_device(devices, name));
    if (add_device(*device, *kind, settings) == 0)
      return refuse_field(
          "from", fmt::format("{} has no value for a field of {}", quotable(name), kind->name));
  }
  for (const std::string_view name : kind->devices) {
    STOKER_ASSIGN(const Device* const device, find_device(devices, name));
    add_device(*device, *kind, settings);
  }
  Result<Answer> answer = kind->run(settings);
  if (!answer.ok()) return with_origin(answer.status(), settings);
  return answer;
}

}  // namespace stoker::plan
