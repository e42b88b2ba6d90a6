#include "observe/mount_table.h"

#include <algorithm>
#include <optional>

#include "observe/text_fields.h"

namespace stoker {
namespace {

bool is_octal(char c) {
  return c >= '0' && c <= '7';
}

/// The kernel writes space, tab, newline, backslash and '#' as \ooo (seq_escape in fs/seq_file.c).
std::string unescape(std::string_view text) {
  std::string plain;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\\' && at + 3 < text.size() && is_octal(text[at + 1]) &&
        is_octal(text[at + 2]) && is_octal(text[at + 3])) {
      plain += static_cast<char>((text[at + 1] - '0') * 64 + (text[at + 2] - '0') * 8 +
                                 (text[at + 3] - '0'));
      at += 3;
    } else {
      plain += text[at];
    }
  }
  return plain;
}

void append_options(std::string_view text, std::vector<std::string>& options) {
  for (const std::string_view option : split(text, ','))
    if (!option.empty()) options.push_back(unescape(option));
}

// 36 35 98:0 /root /mount/point rw,noatime shared:1 - ext3 /dev/root rw,errors=continue
//  0  1   2    3        4           5      optional ^   +1    +2           +3
std::optional<MountEntry> parse_line(std::string_view line) {
  constexpr std::size_t kOptionalFields = 6;
  const std::vector<std::string_view> words = split_words(line);
  if (words.size() < kOptionalFields) return std::nullopt;
  const auto dash = std::find(words.begin() + kOptionalFields, words.end(), "-");
  if (words.end() - dash < 3) return std::nullopt;
  const std::vector<std::string_view> device = split(words[2], ':');
  if (device.size() != 2) return std::nullopt;
  const std::optional<std::uint64_t> major = parse_count(device[0]);
  const std::optional<std::uint64_t> minor = parse_count(device[1]);
  if (!major || !minor || *major > UINT32_MAX || *minor > UINT32_MAX) return std::nullopt;

  MountEntry entry{.device_major = static_cast<std::uint32_t>(*major),
                   .device_minor = static_cast<std::uint32_t>(*minor),
                   .mount_point = unescape(words[4]),
                   .type = unescape(dash[1]),
                   .source = unescape(dash[2]),
                   .options = {}};
  append_options(words[5], entry.options);
  if (words.end() - dash > 3) append_options(dash[3], entry.options);
  return entry;
}

bool lies_under(std::string_view path, std::string_view mount_point) {
  if (!path.starts_with(mount_point)) return false;
  return mount_point.ends_with('/') || path.size() == mount_point.size() ||
         path[mount_point.size()] == '/';
}

}  // namespace

bool MountEntry::has_option(std::string_view option) const {
  return std::find(options.begin(), options.end(), option) != options.end();
}

std::string_view MountEntry::find_option(std::string_view name) const {
  std::string_view value;
  for (const std::string_view option : options)
    if (option.starts_with(name) && option.substr(name.size()).starts_with('='))
      value = option.substr(name.size() + 1);
  return value;
}

std::vector<MountEntry> parse_mountinfo(std::string_view text) {
  std::vector<MountEntry> mounts;
  for (const std::string_view line : split(text, '\n'))
    if (std::optional<MountEntry> entry = parse_line(line)) mounts.push_back(*std::move(entry));
  return mounts;
}

const MountEntry* find_mount(const std::vector<MountEntry>& mounts, std::string_view path) {
  const MountEntry* best = nullptr;
  for (const MountEntry& mount : mounts) {
    if (mount.mount_point.empty() || !lies_under(path, mount.mount_point)) continue;
    if (best == nullptr || mount.mount_point.size() >= best->mount_point.size()) best = &mount;
  }
  return best;
}

}  // namespace stoker
