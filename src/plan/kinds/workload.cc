#include "plan/kinds/workload.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/toml.h"

namespace stoker::plan {
namespace {

constexpr std::string_view kWhat = "the workload file";

Status refuse(std::size_t line, std::string_view why) {
  return {Code::invalid_argument, fmt::format("{}, line {}: {}", kWhat, line, why)};
}

/// The fields of one table: the keys of [cache] begin with "cache_".
class TableReader {
 public:
  TableReader(const TomlTable& table, const Kind& kind, std::vector<Setting>& settings)
      : prefix_(table.name.empty() || table.name == "workload" ? "" : table.name + "_"),
        kind_(kind),
        settings_(settings) {}

  Status add(const TomlEntry& entry) {
    const std::string name = prefix_ + entry.key;
    const Field* field = kind_.find(name);
    if (field == nullptr)
      return refuse(entry.line, fmt::format("{} is not a field of {}", quotable(name), kind_.name));
    if (field->unit != Unit::text) {
      const Result<double> value = parse_quantity(entry.value, field->unit);
      if (!value.ok()) return refuse(entry.line, value.status().with_context(name).message());
    }
    if (is_set(name)) return refuse(entry.line, fmt::format("{} is set twice", quotable(name)));
    settings_.push_back({.name = name,
                         .text = entry.value,
                         .origin = fmt::format("{}, line {}", kWhat, entry.line)});
    return {};
  }

  Status add_device(const TomlEntry& entry, std::span<const Device> devices) {
    const auto device = std::ranges::find(devices, entry.value, &Device::name);
    if (device == devices.end())
      return refuse(entry.line, fmt::format("there is no device \"{}\"; `stoker plan devices` "
                                            "lists them",
                                            quotable(entry.value)));
    std::size_t known = 0;
    for (Setting setting : device->settings) {
      setting.name = prefix_ + setting.name;
      if (kind_.find(setting.name) == nullptr) continue;
      ++known;
      if (!is_set(setting.name)) settings_.push_back(std::move(setting));
    }
    if (known != 0) return {};
    return refuse(entry.line, fmt::format("{} has no value for this table", quotable(entry.value)));
  }

 private:
  bool is_set(std::string_view name) const {
    return std::ranges::find(settings_, name, &Setting::name) != settings_.end();
  }

  std::string prefix_;
  const Kind& kind_;
  std::vector<Setting>& settings_;
};

}  // namespace

Result<std::vector<Setting>> parse_workload(std::string_view text, const Kind& kind,
                                            std::span<const Device> devices) {
  STOKER_ASSIGN(const std::vector<TomlTable> tables, parse_toml(text, kWhat));
  std::vector<Setting> settings;
  for (const TomlTable& table : tables) {
    if (table.is_element)
      return refuse(table.line, fmt::format("[[{}]]: a workload has tables like [cache]",
                                            quotable(table.name)));
    TableReader reader(table, kind, settings);
    for (const TomlEntry& entry : table.entries)
      if (entry.key != "device") STOKER_TRY(reader.add(entry));
  }
  for (const TomlTable& table : tables) {
    TableReader reader(table, kind, settings);
    if (const TomlEntry* entry = table.find("device"))
      STOKER_TRY(reader.add_device(*entry, devices));
  }
  return settings;
}

}  // namespace stoker::plan
