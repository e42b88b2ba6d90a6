#include <fmt/format.h>

#include <algorithm>

#include "base/shell_quote.h"
#include "observe/checks.h"
#include "observe/checks/lustre.h"
#include "observe/text_fields.h"
#include "stoker/units.h"

// The choice of a layout. There are many shards, and each is read by one node at a time, so one
// target per shard spreads the load. A checkpoint consists of few huge files, each written by one
// client as fast as it can, so each needs several targets. A progressive layout serves both: small
// files and the first part of large ones stay on one target. Checkpoints are written in units of 4
// MiB, which is also the largest RPC that servers accept by default.

namespace stoker {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kWideCheckpoint = 8;
constexpr std::uint64_t kWideDataset = 4;
constexpr std::uint64_t kWideMin = 4;

std::uint64_t count_targets(Machine& machine, const Target& target) {
  const auto text = find_output(machine, {"lfs", "df", target.directory});
  if (!text) return 0;
  const std::vector<LustreTarget> targets = parse_lustre_targets(*text);
  return static_cast<std::uint64_t>(
      std::count_if(targets.begin(), targets.end(),
                    [](const LustreTarget& storage) { return !storage.is_metadata; }));
}

std::uint64_t wanted_width(Role role, std::uint64_t target_count) {
  const std::uint64_t wanted = role == Role::dataset ? kWideDataset : kWideCheckpoint;
  return target_count == 0 ? wanted : std::min(wanted, target_count);
}

std::vector<std::string> set_stripe_command(const Target& target, std::uint64_t target_count) {
  const std::string first_end = target.role == Role::checkpoint ? "64M" : "1G";
  return {"lfs",     "setstripe", "-E",
          first_end, "-c",        "1",
          "-S",      "4M",        "-E",
          "-1",      "-c",        std::to_string(wanted_width(target.role, target_count)),
          "-S",      "4M",        target.directory};
}

std::string layout_text(const LustreLayout& layout) {
  return fmt::format(
      "{} of {} in {} stripes", layout.component_count > 1 ? "progressive, the tail" : "pieces",
      format_bytes(layout.stripe_bytes),
      layout.stripe_count == LustreLayout::kAllTargets ? "all"
                                                       : std::to_string(layout.stripe_count));
}

Finding judge(const Target& target, const LustreLayout& layout, std::uint64_t target_count) {
  Finding finding{.subject = target.subject("Lustre layout"),
                  .seen = fmt::format("{}; {} storage targets", layout_text(layout), target_count)};
  const std::string fix = format_command(set_stripe_command(target, target_count)) +
                          "   # or: stoker doctor --set-stripe " + shell_quote(target.directory);
  const bool all = layout.stripe_count == LustreLayout::kAllTargets;
  const std::uint64_t width = all ? std::max<std::uint64_t>(target_count, 1)
                                  : static_cast<std::uint64_t>(layout.stripe_count);
  const std::uint64_t width_min = target_count == 0 ? kWideMin : std::min(kWideMin, target_count);
  if (target.for_checkpoints() && width < width_min) {
    finding.severity = Severity::warning;
    finding.why =
        "A checkpoint file is stored on one or a few storage targets and is written at their "
        "speed, while the others are idle.";
    finding.fix = fix;
  } else if (target.for_datasets() && layout.component_count == 1 && width > kWideCheckpoint) {
    finding.severity = Severity::note;
    finding.why =
        "Every small file takes an object on each of these targets, so opening it asks "
        "all of them.";
    finding.fix = fix;
  } else if (layout.stripe_bytes != 0 && layout.stripe_bytes < kMiB) {
    finding.severity = Severity::note;
    finding.why =
        "Reads and writes are split at stripe ends, and adjacent writers contend for "
        "locks on pieces this small.";
    finding.fix = fix;
  }
  return finding;
}

/// A layout applies to new files only; this finds large existing files on a single target.
std::optional<Finding> find_old_files(Machine& machine, const Target& target,
                                      std::uint64_t target_count) {
  const std::uint64_t width = wanted_width(target.role, target_count);
  if (width < 2) return std::nullopt;
  const auto text = find_output(machine, {"lfs", "find", target.directory, "--maxdepth", "2",
                                          "--type", "f", "--size", "+4G", "--stripe-count", "1"});
  const auto count = text ? std::count(text->begin(), text->end(), '\n') : 0;
  if (count == 0) return std::nullopt;
  const std::string directory = shell_quote(target.directory);
  return Finding{
      .severity = Severity::note,
      .subject = target.subject("Lustre migrate"),
      .seen = fmt::format("{} above 4 GiB on one storage target each",
                          count == 1 ? "1 file" : fmt::format("{} files", count)),
      .why =
          "Many ranks that read such a file share the bandwidth of one target; a new "
          "default layout does not move it.",
      .fix = fmt::format("lfs find {} --type f --size +4G --stripe-count 1 -0 | xargs -0 "
                         "-n 1 lfs migrate -c {} -S 4M",
                         directory, width)};
}

}  // namespace

std::string format_command(const std::vector<std::string>& argv) {
  std::string line;
  for (const std::string& word : argv) {
    if (!line.empty()) line.push_back(' ');
    line.append(shell_quote(word));
  }
  return line;
}

std::optional<LustreLayout> parse_lustre_layout(std::string_view text) {
  constexpr std::int64_t kCountMax = 1'000'000;
  LustreLayout layout;
  std::size_t found = 0;
  const std::vector<std::string_view> words = split_words(text);
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string_view value = words[i + 1];
    if (words[i] == "stripe_count:" || words[i] == "lmm_stripe_count:") {
      const std::optional<std::uint64_t> count = parse_count(value);
      if (value != "-1" && (!count || *count > static_cast<std::uint64_t>(kCountMax))) continue;
      layout.stripe_count =
          value == "-1" ? LustreLayout::kAllTargets : static_cast<std::int64_t>(*count);
      ++found;
    } else if (words[i] == "stripe_size:" || words[i] == "lmm_stripe_size:") {
      layout.stripe_bytes = parse_count(value).value_or(0);
    }
  }
  if (found == 0) return std::nullopt;
  layout.component_count = found;
  return layout;
}

// lustre-OST0003_UUID  15055744 1234 13821344  9% /lustre[OST:3]
std::vector<LustreTarget> parse_lustre_targets(std::string_view text) {
  std::vector<LustreTarget> targets;
  for (const std::string_view line : split(text, '\n')) {
    const std::vector<std::string_view> words = split_words(line);
    if (words.size() < 6 || !words.back().ends_with(']')) continue;
    const std::size_t open = words.back().rfind('[');
    if (open == std::string_view::npos || words.back().size() - open < 7) continue;
    const std::string_view tag = words.back().substr(open + 1);
    const auto index = parse_count(tag.substr(4, tag.size() - 5));
    const auto used = parse_count(words[4].substr(0, words[4].find('%')));
    if (!index || (!tag.starts_with("OST:") && !tag.starts_with("MDT:"))) continue;
    targets.push_back({.is_metadata = tag.starts_with("MDT:"),
                       .index = *index,
                       .used_percent = used.value_or(0)});
  }
  return targets;
}

Result<std::vector<std::string>> plan_set_stripe(Machine& machine, const Target& target) {
  if (target.kind != FilesystemType::lustre || !target.info.is_directory)
    return Status(
        Code::invalid_argument,
        fmt::format("--set-stripe: {} is not a directory on Lustre; leave the flag out, or "
                    "name one that is",
                    target.path));
  return set_stripe_command(target, count_targets(machine, target));
}

Findings check_lustre_layout(Machine& machine, const Target& target) {
  if (target.kind != FilesystemType::lustre) return {};
  const auto text = find_output(machine, {"lfs", "getstripe", "-d", target.directory});
  const auto layout = text ? parse_lustre_layout(*text) : std::nullopt;
  if (!layout)
    return {{.severity = Severity::note,
             .subject = target.subject("Lustre layout"),
             .seen = "lfs getstripe does not answer",
             .why = "Without striping a large file has the bandwidth of one storage target; this "
                    "could not be checked.",
             .fix = "apt-get install lustre-client-utils   # RPM: lustre-client"}};
  const std::uint64_t target_count = count_targets(machine, target);
  Findings findings{judge(target, *layout, target_count)};
  if (auto old = find_old_files(machine, target, target_count)) findings.push_back(*std::move(old));
  return findings;
}

}  // namespace stoker
