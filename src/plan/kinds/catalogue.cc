#include "plan/kinds/catalogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "plan/kinds/table.h"
#include "plan/toml.h"

namespace stoker::plan {
namespace {

/// A key is a field of some plan, or of a table of its workload file: read_rate, cache_read_rate.
const Field* field_of_any_plan(std::string_view key) {
  const std::string end = fmt::format("_{}", key);
  const Field* in_table = nullptr;
  for (const Kind* kind : kinds()) {
    if (const Field* field = kind->find(key)) return field;
    const auto found = std::ranges::find_if(
        kind->fields, [&](const Field& field) { return field.name.ends_with(end); });
    if (found != kind->fields.end()) in_table = &*found;
  }
  return in_table;
}

Result<Device> read_device(const TomlTable& table, std::string_view what) {
  const auto refuse = [&](std::size_t line, std::string_view why) {
    return Status(Code::invalid_argument, fmt::format("{}, line {}: {}", what, line, why));
  };
  Device device{.kind = table.name, .name = {}, .source = {}, .settings = {}};
  if (const TomlEntry* name = table.find("name")) device.name = name->value;
  if (const TomlEntry* source = table.find("source")) device.source = source->value;
  if (device.name.empty()) return refuse(table.line, "the device has no name");
  if (device.source.empty())
    return refuse(table.line, fmt::format("{} has no source: say where its numbers come from, and "
                                          "when",
                                          quotable(device.name)));
  for (const TomlEntry& entry : table.entries) {
    if (entry.key == "name" || entry.key == "source") continue;
    const Field* field = field_of_any_plan(entry.key);
    if (field == nullptr)
      return refuse(entry.line, fmt::format("{} is not a field of any plan", quotable(entry.key)));
    if (field->unit != Unit::text) {
      const Result<double> value = parse_quantity(entry.value, field->unit);
      if (!value.ok()) return refuse(entry.line, value.status().with_context(entry.key).message());
    }
    device.settings.push_back({.name = entry.key,
                               .text = entry.value,
                               .origin = fmt::format("catalogue: {}", device.name),
                               .source = device.source});
  }
  return device;
}

}  // namespace

Result<std::vector<Device>> parse_catalogue(std::string_view text, std::string_view what) {
  STOKER_ASSIGN(const std::vector<TomlTable> tables, parse_toml(text, what));
  std::vector<Device> devices;
  std::set<std::string> names;
  for (const TomlTable& table : tables) {
    if (table.name.empty() && table.entries.empty()) continue;
    const std::size_t line = table.name.empty() ? table.entries.front().line : table.line;
    if (!table.is_element)
      return Status(Code::invalid_argument,
                    fmt::format("{}, line {}: a device begins with [[ssd]], [[gpu]] or the like",
                                what, line));
    STOKER_ASSIGN(Device device, read_device(table, what));
    if (!names.insert(device.name).second)
      return Status(Code::invalid_argument,
                    fmt::format("{}, line {}: {} again", what, line, quotable(device.name)));
    devices.push_back(std::move(device));
  }
  return devices;
}

Result<std::vector<Device>> all_devices(std::string_view users_catalogue) {
  STOKER_ASSIGN(std::vector<Device> devices, parse_catalogue(users_catalogue, "the catalogue"));
  STOKER_ASSIGN(std::vector<Device> ours, parse_catalogue(device_catalogue(), "devices.toml"));
  for (Device& device : ours)
    if (std::ranges::find(devices, device.name, &Device::name) == devices.end())
      devices.push_back(std::move(device));
  return devices;
}

}  // namespace stoker::plan
