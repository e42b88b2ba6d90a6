#include "checkpoint/inspect/export_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "formats/json/json.h"

namespace stoker {
namespace {

std::string stripped(std::string_view name, const ExportOptions& options) {
  std::size_t longest = 0;
  for (const std::string& prefix : options.strip)
    if (name.starts_with(prefix)) longest = std::max(longest, prefix.size());
  return std::string(name.substr(longest));
}

/// Returns the name that a tensor has in the export; nothing if it is left out.
std::optional<std::string> exported_name(std::string_view name, const ExportOptions& options) {
  std::string rest = stripped(name, options);
  return options.adapter ? adapter_tensor_name(rest, *options.adapter) : std::move(rest);
}

std::string file_name(const ExportOptions& options, std::size_t index, std::size_t count) {
  if (options.adapter) return "adapter_model.safetensors";
  if (count == 1) return "model.safetensors";
  return fmt::format("model-{:05}-of-{:05}.safetensors", index + 1, count);
}

}  // namespace

std::optional<std::string> adapter_tensor_name(std::string_view name, std::string_view adapter) {
  // A dot ends every part, for now.
  std::string rest;
  std::string_view before;
  bool is_found = false;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    begin = end + 1;
    if (!is_found && part == adapter && before == "modules_to_save") {
      is_found = true;  // a module that is trained as a whole has its own name in the file
      rest.resize(rest.size() - before.size() - 1);
    } else if (!is_found && part == adapter && before.starts_with("lora_")) {
      is_found = true;
    } else {
      rest.append(part).append(1, '.');
    }
    before = part;
  }
  if (!is_found) return std::nullopt;
  if (!rest.empty()) rest.pop_back();
  constexpr std::string_view kMagnitude = "lora_magnitude_vector";  // of DoRA
  if (rest.ends_with(std::string(kMagnitude) + ".weight")) rest.resize(rest.rfind('.'));
  return rest;
}

Result<std::vector<ExportFile>> plan_export(std::span<const NamedTensor> named,
                                            const ExportOptions& options, bool is_split) {
  std::map<std::string, NamedTensor> by_name;
  for (const NamedTensor& one : choose_tensors(named, options.only)) {
    const std::optional<std::string> exported = exported_name(one.name, options);
    if (!exported) continue;
    const std::string& name = *exported;
    if (name.empty())
      return Status(Code::invalid_argument, "tensor " + one.name + ": stripping leaves no name");
    const auto [other, is_new] = by_name.emplace(name, one);
    if (!is_new)
      return Status(Code::invalid_argument, "tensors " + other->second.name + " and " + one.name +
                                                " would both be named " + name);
  }
  if (by_name.empty() && options.adapter)
    return Status(Code::invalid_argument,
                  fmt::format("there is no LoRA adapter {}: no tensor has a name such as "
                              "x.lora_A.{}.weight",
                              *options.adapter, *options.adapter));
  if (by_name.empty()) return Status(Code::invalid_argument, "there is no tensor to export");
  for (const std::string& prefix : options.strip) {
    const bool is_used = std::ranges::any_of(
        by_name, [&](const auto& one) { return one.second.name.starts_with(prefix); });
    if (!is_used)
      return Status(Code::invalid_argument,
                    fmt::format("--strip {}: no exported name begins with that; one is {}", prefix,
                                by_name.begin()->second.name));
  }
  std::vector<std::pair<std::string, const TensorInfo*>> order;
  for (const auto& [name, one] : by_name) order.emplace_back(name, one.tensor);
  std::ranges::sort(order, [](const auto& a, const auto& b) {
    const std::size_t bits_a = tensor_type_bits(a.second->type);
    const std::size_t bits_b = tensor_type_bits(b.second->type);
    return bits_a != bits_b ? bits_a > bits_b : a.first < b.first;
  });
  std::vector<ExportFile> files(1);
  std::uint64_t file_bytes = 0;
  for (auto& [name, tensor] : order) {
    const std::uint64_t limit = options.file_bytes_max;
    const bool is_full = tensor->size_bytes > limit || file_bytes > limit - tensor->size_bytes;
    if (is_split && is_full && !files.back().tensors.empty()) {
      files.emplace_back();
      file_bytes = 0;
    }
    files.back().tensors.push_back(tensor);
    files.back().entries.push_back({.name = name, .type = tensor->type, .shape = tensor->shape});
    file_bytes += tensor->size_bytes;
  }
  for (std::size_t i = 0; i < files.size(); ++i)
    files[i].name = file_name(options, i, files.size());
  return files;
}

std::vector<SameTensor> same_tensors(std::span<const NamedTensor> named,
                                     const ExportOptions& options) {
  std::map<const TensorInfo*, std::string> exported;
  std::set<std::string_view> names;
  const std::vector<NamedTensor> chosen = choose_tensors(named, options.only);
  for (const NamedTensor& one : chosen) {
    if (std::optional<std::string> name = exported_name(one.name, options))
      exported.emplace(one.tensor, *std::move(name));
    names.insert(one.name);
  }
  std::vector<SameTensor> same;
  for (const NamedTensor& one : named) {
    const bool is_wanted =
        options.only.empty() || std::ranges::any_of(options.only, [&](const std::string& prefix) {
          return one.name.starts_with(prefix);
        });
    const auto other = exported.find(one.tensor);
    if (!is_wanted || names.contains(one.name) || other == exported.end()) continue;
    if (std::optional<std::string> name = exported_name(one.name, options))
      same.push_back({.name = *std::move(name), .exported = other->second});
  }
  return same;
}

std::string format_export_index(std::span<const ExportFile> files) {
  Json map = Json::object();
  std::uint64_t total = 0;
  for (const ExportFile& file : files) {
    for (std::size_t i = 0; i < file.entries.size(); ++i) {
      map[file.entries[i].name] = file.name;
      total += file.tensors[i]->size_bytes;
    }
  }
  const Json index = {{"metadata", {{"total_size", total}}}, {"weight_map", std::move(map)}};
  return index.dump({.indent_spaces = 2, .is_sorted = true}) + "\n";
}

}  // namespace stoker
