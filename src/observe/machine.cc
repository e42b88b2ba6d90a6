#include "observe/machine.h"

#include <algorithm>
#include <utility>

#include "observe/text_fields.h"

namespace stoker {

std::optional<std::string> find_word(Machine& machine, const std::string& path) {
  const Result<std::string> text = machine.read_text(path);
  if (!text.ok()) return std::nullopt;
  const std::string_view word = trim(*text);
  if (word.empty()) return std::nullopt;
  return std::string(word);
}

std::optional<std::uint64_t> find_count(Machine& machine, const std::string& path) {
  const std::optional<std::string> word = find_word(machine, path);
  return word ? parse_count(*word) : std::nullopt;
}

std::vector<std::string> find_numbered(Machine& machine, const std::string& directory,
                                       std::string_view prefix) {
  constexpr std::size_t kEntriesMax = 4096;
  Result<std::vector<DirectoryEntry>> entries = machine.list(directory, kEntriesMax);
  if (!entries.ok()) return {};
  std::vector<std::pair<std::uint64_t, std::string>> found;
  for (DirectoryEntry& entry : *entries) {
    const std::string_view name = entry.name;
    if (!name.starts_with(prefix)) continue;
    const std::string_view digits = name.substr(prefix.size());
    if (digits.find_first_not_of("0123456789") != std::string_view::npos) continue;
    if (const auto number = parse_count(digits)) found.emplace_back(*number, std::move(entry.name));
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> names;
  names.reserve(found.size());
  for (auto& [number, name] : found) names.push_back(std::move(name));
  return names;
}

std::uint64_t memory_total_bytes(Machine& machine) {
  const Result<std::string> text = machine.read_text("/proc/meminfo");
  if (!text.ok()) return 0;
  const std::vector<std::string_view> words =
      split_words(find_field(*text, "MemTotal:").value_or(""));
  const std::uint64_t kibibytes = words.empty() ? 0 : parse_count(words[0]).value_or(0);
  return kibibytes > UINT64_MAX / 1024 ? 0 : kibibytes * 1024;
}

std::optional<std::string> find_output(Machine& machine, const std::vector<std::string>& argv) {
  Result<CommandResult> result = machine.run(argv, kCommandTimeout);
  if (!result.ok() || result->exit_code != 0) return std::nullopt;
  return std::move(result->output);
}

}  // namespace stoker
