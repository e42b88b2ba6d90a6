#include "observe/fixture_machine.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "observe/text_fields.h"

namespace stoker::testing {
namespace {

using Json = nlohmann::json;

constexpr const char* kMountinfo = "/proc/self/mountinfo";

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

Json load_json(const std::string& file) {
  return std::filesystem::exists(file) ? Json::parse(read_file(file)) : Json::object();
}

bool lies_under(std::string_view path, std::string_view directory) {
  if (directory == "/") return true;
  return path.starts_with(directory) &&
         (path.size() == directory.size() || path[directory.size()] == '/');
}

/// The entry with the longest key that `path` lies under; null if there is none.
template <typename T>
const T* find_longest(const std::map<std::string, T>& entries, std::string_view path) {
  const T* best = nullptr;
  for (const auto& [key, value] : entries)  // in order: a longer prefix comes later
    if (lies_under(path, key)) best = &value;
  return best;
}

ResourceLimit parse_limit(const Json& json) {
  const auto count = [](const Json& value) {
    return value == "unlimited" ? ResourceLimit::kUnlimited : value.get<std::uint64_t>();
  };
  return json.is_array() ? ResourceLimit{count(json[0]), count(json[1])}
                         : ResourceLimit{count(json), count(json)};
}

std::string parse_output(const Json& json) {
  if (json.is_string()) return json.get<std::string>();
  std::string text;
  for (const Json& line : json) text += line.get<std::string>() + '\n';
  return text;
}

Status missing(const std::string& path) {
  return Status::from_errno(ENOENT, "open", path);
}

}  // namespace

FixtureMachine::FixtureMachine(std::string_view name) {
  const std::string fixtures = STOKER_OBSERVE_FIXTURES;
  Json answers = load_json(fixtures + "/base/machine.json");
  answers.merge_patch(load_json(fmt::format("{}/{}/machine.json", fixtures, name)));
  load_tree(fixtures + "/base/root");
  load_tree(fmt::format("{}/{}/root", fixtures, name));

  root = answers["root"].get<bool>();
  locked_memory = parse_limit(answers["limits"]["memlock"]);
  open_files = parse_limit(answers["limits"]["nofile"]);
  uring_state = {.works = answers["uring"]["works"].get<bool>(),
                 .reason = answers["uring"]["reason"].get<std::string>()};
  for (const auto& [path, target] : answers["links"].items())
    set_link(path, target.get<std::string>());
  for (const auto& [path, size] : answers["files"].items())
    add_file(path, size.get<std::uint64_t>());
  for (const auto& [line, result] : answers["commands"].items())
    set_command(line, parse_output(result["output"]), result["exit"].get<int>());
  for (const auto& [path, device] : answers["devices"].items()) {
    const std::string text = device.get<std::string>();
    const std::vector<std::string_view> numbers = split(text, ':');
    set_device(path, static_cast<std::uint32_t>(parse_count(numbers.at(0)).value()),
               static_cast<std::uint32_t>(parse_count(numbers.at(1)).value()));
    put(path, {.is_directory = true});
  }
  for (const auto& [path, volume] : answers["volumes"].items())
    volumes_[path] = {.type_magic = parse_count(volume["magic"].get<std::string>()).value(),
                      .block_bytes = volume["block_bytes"].get<std::uint64_t>(),
                      .blocks_total = volume["blocks_total"].get<std::uint64_t>(),
                      .blocks_available = volume["blocks_available"].get<std::uint64_t>(),
                      .inodes_total = volume["inodes_total"].get<std::uint64_t>(),
                      .inodes_free = volume["inodes_free"].get<std::uint64_t>()};
}

void FixtureMachine::load_tree(const std::string& directory) {
  if (!std::filesystem::exists(directory)) return;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory))
    if (entry.is_regular_file())
      set_text(entry.path().string().substr(directory.size()), read_file(entry.path()));
}

void FixtureMachine::put(const std::string& path, Node node) {
  for (std::size_t at = path.rfind('/'); at != 0 && at != std::string::npos;
       at = path.rfind('/', at - 1)) {
    Node& parent = nodes_.try_emplace(path.substr(0, at), Node{.is_directory = true}).first->second;
    parent.size_bytes += 32;  // about an entry's; the more below it, the longer
  }
  nodes_[path] = std::move(node);
}

FixtureMachine& FixtureMachine::set_text(const std::string& path, std::string text) {
  const std::uint64_t size = text.size();
  put(path, {.text = std::move(text), .size_bytes = size});
  return *this;
}

FixtureMachine& FixtureMachine::remove(const std::string& path) {
  std::erase_if(nodes_, [&](const auto& node) { return lies_under(node.first, path); });
  return *this;
}

FixtureMachine& FixtureMachine::add_file(const std::string& path, std::uint64_t size_bytes) {
  put(path, {.size_bytes = size_bytes});
  return *this;
}

FixtureMachine& FixtureMachine::set_link(const std::string& path, const std::string& target) {
  links_[path] = target;
  return *this;
}

FixtureMachine& FixtureMachine::set_device(const std::string& path, std::uint32_t device_major,
                                           std::uint32_t device_minor) {
  devices_[path] = {device_major, device_minor};
  return *this;
}

FixtureMachine& FixtureMachine::set_command(const std::string& line, std::string output,
                                            int exit_code) {
  commands_[line] = {.exit_code = exit_code, .output = std::move(output)};
  return *this;
}

FixtureMachine& FixtureMachine::uninstall(const std::string& program) {
  std::erase_if(commands_,
                [&](const auto& command) { return split_words(command.first).front() == program; });
  return *this;
}

FixtureMachine& FixtureMachine::deny(const std::string& path) {
  denied_ = path;
  return *this;
}

FixtureMachine& FixtureMachine::fill_with(const std::string& text) {
  for (auto& [path, node] : nodes_)
    if (!node.is_directory && !lies_under(path, "/data")) node.text = text;
  for (auto& [line, result] : commands_) result.output = text;
  for (auto& [path, target] : links_) target = text;
  return *this;
}

FixtureMachine& FixtureMachine::add_mount_option(const std::string& option) {
  std::string& text = nodes_[kMountinfo].text;
  text = std::string(trim(text)) + "," + option + "\n";
  return *this;
}

FixtureMachine& FixtureMachine::set_read_time(const std::string& path,
                                              std::chrono::nanoseconds median) {
  read_times_[path] = median;
  return *this;
}

FixtureMachine& FixtureMachine::drop_mount_option(const std::string& option) {
  std::string& text = nodes_[kMountinfo].text;
  const std::size_t at = text.rfind("," + option);
  EXPECT_NE(at, std::string::npos) << option;
  if (at != std::string::npos) text.erase(at, option.size() + 1);
  return *this;
}

Result<std::string> FixtureMachine::read_text(const std::string& path) {
  if (path == denied_) return Status::from_errno(EACCES, "open", path);
  const auto node = nodes_.find(path);
  if (node == nodes_.end() || node->second.is_directory) return missing(path);
  return node->second.text;
}

Result<std::vector<DirectoryEntry>> FixtureMachine::list(const std::string& path,
                                                         std::size_t count_max) {
  if (path == denied_) return Status::from_errno(EACCES, "opendir", path);
  const auto self = nodes_.find(path);
  if (path != "/" && (self == nodes_.end() || !self->second.is_directory)) return missing(path);
  const std::string prefix = path == "/" ? path : path + "/";
  std::vector<DirectoryEntry> entries;
  for (auto at = nodes_.lower_bound(prefix); at != nodes_.end() && entries.size() < count_max;
       ++at) {
    if (!at->first.starts_with(prefix)) break;
    const std::string name = at->first.substr(prefix.size());
    if (name.empty() || name.find('/') != std::string::npos) continue;
    entries.push_back({.name = name,
                       .kind = at->second.is_directory ? DirectoryEntry::Kind::directory
                                                       : DirectoryEntry::Kind::file});
  }
  return entries;
}

Result<std::string> FixtureMachine::read_link(const std::string& path) {
  const auto link = links_.find(path);
  if (link == links_.end()) return missing(path);
  return link->second;
}

Result<std::string> FixtureMachine::resolve(const std::string& path) {
  if (path != "/" && !nodes_.contains(path)) return missing(path);
  return path;
}

Result<VolumeStats> FixtureMachine::volume(const std::string& path) {
  const VolumeStats* found = find_longest(volumes_, path);
  if (found == nullptr) return missing(path);
  return *found;
}

Result<PathInfo> FixtureMachine::stat(const std::string& path) {
  const auto node = nodes_.find(path);
  const bool is_root = path == "/";
  if (!is_root && node == nodes_.end()) return missing(path);
  const bool is_directory = is_root || node->second.is_directory;
  PathInfo info{.is_directory = is_directory,
                .is_file = !is_directory,
                .size_bytes = is_root ? 0 : node->second.size_bytes};
  if (const auto* device = find_longest(devices_, path)) {
    info.device_major = device->first;
    info.device_minor = device->second;
  }
  return info;
}

Result<ReadTiming> FixtureMachine::time_reads(const std::string& path) {
  const auto time = read_times_.find(path);
  if (time == read_times_.end()) return missing(path);
  return ReadTiming{.count = 64, .median = time->second};
}

ResourceLimit FixtureMachine::limit(Resource resource) {
  return resource == Resource::locked_memory ? locked_memory : open_files;
}

Result<CommandResult> FixtureMachine::run(const std::vector<std::string>& argv, milliseconds) {
  const std::string line = fmt::format("{}", fmt::join(argv, " "));
  commands_run.push_back(line);
  if (const auto command = commands_.find(line); command != commands_.end()) return command->second;
  for (const auto& [known, result] : commands_)  // installed, but not asked for in this fixture
    if (split_words(known).front() == argv.front())
      return CommandResult{.exit_code = 1, .output = {}};
  return Status::from_errno(ENOENT, "run", argv.front());
}

Target data_target(FixtureMachine& machine, Role role) {
  Result<Target> target = make_target(machine, "/data", role);
  EXPECT_TRUE(target.ok()) << target.status().message();
  return target.ok() ? *std::move(target) : Target{};
}

Finding expect_finding(const Findings& findings, Severity severity, std::string_view subject,
                       std::string_view seen) {
  std::string all;
  for (const Finding& finding : findings) {
    if (finding.subject == subject && finding.severity != Severity::ok &&
        finding.seen.find(seen) != std::string::npos) {
      EXPECT_EQ(finding.severity, severity) << finding.seen;
      EXPECT_FALSE(finding.why.empty()) << finding.seen;
      EXPECT_FALSE(finding.fix.empty()) << finding.seen;
      return finding;
    }
    all += fmt::format("  {}: {}\n", finding.subject, finding.seen);
  }
  ADD_FAILURE() << "nothing like " << subject << ": " << seen << " among\n" << all;
  return {};
}

void expect_well(const Findings& findings) {
  EXPECT_FALSE(findings.empty());
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.severity, Severity::ok) << finding.subject << ": " << finding.seen;
    EXPECT_EQ(finding.fix, "") << finding.subject;
  }
}

}  // namespace stoker::testing
