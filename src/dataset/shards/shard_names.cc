#include "dataset/shards/shard_names.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <set>

#include "dataset/shards/shard_files.h"
#include "dataset/shards/shard_glob.h"
#include "formats/arrays/array_formats.h"
#include "formats/table/shard_formats.h"

namespace stoker {
namespace {

constexpr int kBracesMax = 16;

struct Brace {
  std::size_t open;
  std::size_t close;
  std::vector<std::string> choices;
};

Status bad_pattern(std::string_view pattern, std::string_view why) {
  return Status(Code::invalid_argument,
                "shard pattern \"" + std::string(pattern) + "\": " + std::string(why));
}

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Expands "000..123": every number, with the width of the first.
Result<std::vector<std::string>> count(std::string_view pattern, std::string_view first,
                                       std::string_view last) {
  const auto from = number(first);
  const auto to = number(last);
  if (!from || !to) return bad_pattern(pattern, "{a..b} counts with whole numbers");
  if (*to < *from) return bad_pattern(pattern, "{a..b} counts upwards");
  if (*to - *from >= kShardNamesMax) return bad_pattern(pattern, "expands to too many names");
  std::vector<std::string> choices;
  for (std::uint64_t n = *from; n <= *to; ++n) {
    std::string digits = std::to_string(n);
    if (digits.size() < first.size()) digits.insert(0, first.size() - digits.size(), '0');
    choices.push_back(std::move(digits));
  }
  return choices;
}

std::vector<std::string> split_commas(std::string_view text) {
  std::vector<std::string> choices;
  for (std::size_t start = 0;;) {
    const std::size_t comma = text.find(',', start);
    choices.emplace_back(text.substr(start, comma - start));
    if (comma == std::string_view::npos) return choices;
    start = comma + 1;
  }
}

/// The first brace from `start` on that is not literal.
Result<std::optional<Brace>> next_brace(std::string_view pattern, std::size_t start) {
  for (;;) {
    const std::size_t open = pattern.find('{', start);
    if (open == std::string_view::npos) return std::optional<Brace>();
    const std::size_t close = pattern.find('}', open);
    if (close == std::string_view::npos) return bad_pattern(pattern, "a brace is not closed");
    const std::string_view inside = pattern.substr(open + 1, close - open - 1);
    if (inside.find('{') != std::string_view::npos)
      return bad_pattern(pattern, "braces do not nest");
    if (const std::size_t dots = inside.find(".."); dots != std::string_view::npos) {
      STOKER_ASSIGN(auto choices, count(pattern, inside.substr(0, dots), inside.substr(dots + 2)));
      return std::optional(Brace{open, close, std::move(choices)});
    }
    if (inside.find(',') != std::string_view::npos)
      return std::optional(Brace{open, close, split_commas(inside)});
    start = close + 1;  // "{}" and "{x}" are literal
  }
}

/// The name that a shard would have in lower case and uncompressed: "a.tar" for "A.TAR", "a.tgz"
/// and "a.tar.xz".
std::string plain_shard_name(std::string_view name) {
  std::string plain(name);
  std::ranges::transform(plain, plain.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; });
  for (const std::string_view ending : {".tgz", ".tzst", ".tbz2", ".txz"})
    if (plain.ends_with(ending))
      return plain.replace(plain.size() - ending.size(), ending.size(), ".tar");
  for (const std::string_view ending : {".gz", ".zst", ".zstd", ".bz2", ".xz", ".lz4"})
    if (plain.ends_with(ending)) plain.resize(plain.size() - ending.size());
  return plain;
}

}  // namespace

Result<std::vector<std::string>> expand_braces(std::string_view pattern) {
  std::vector<std::string> names = {""};
  std::size_t done = 0;
  for (int braces = 0;; ++braces) {
    if (braces > kBracesMax) return bad_pattern(pattern, "has too many braces");
    STOKER_ASSIGN(const std::optional<Brace> brace, next_brace(pattern, done));
    const std::size_t end = brace ? brace->open : pattern.size();
    for (std::string& name : names) name.append(pattern.substr(done, end - done));
    if (!brace) return names;
    if (names.size() > kShardNamesMax / brace->choices.size())
      return bad_pattern(pattern, "expands to too many names");
    std::vector<std::string> longer;
    longer.reserve(names.size() * brace->choices.size());
    for (const std::string& name : names)
      for (const std::string& choice : brace->choices) longer.push_back(name + choice);
    names = std::move(longer);
    done = brace->close + 1;
  }
}

Result<std::vector<std::string>> find_shards(std::string_view pattern, ObjectStore& store) {
  // The name of a file may contain braces and glob characters: it is then taken literally.
  if (store.look(std::string(pattern)).ok()) return std::vector{std::string(pattern)};
  STOKER_ASSIGN(const std::vector<std::string> names, expand_braces(pattern));
  const std::vector<Result<ObjectStore::Entry>> entries = internal::look_all(store, names);
  std::vector<std::string> shards;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string& name = names[i];
    const Status looked = entries[i].status();
    if (looked.ok()) {
      shards.push_back(name);
    } else if (internal::is_glob(name)) {
      STOKER_ASSIGN(const std::vector<std::string> matches, internal::match_glob(store, name));
      shards.insert(shards.end(), matches.begin(), matches.end());
    } else {
      return looked.os_error() != 0 && store.is_local()
                 ? Status::from_errno(looked.os_error(), "shard", name)
                 : looked;
    }
  }
  return shards;
}

std::string shard_stem(std::string_view shard_name) {
  const std::filesystem::path name(shard_name);
  const bool is_packed = name.extension() != ".mds" && name.stem().extension() == ".mds";
  const std::filesystem::path stem = is_packed ? name.stem().stem() : name.stem();
  const bool is_mds = is_packed || name.extension() == ".mds";
  return (is_mds ? name.parent_path() / stem : stem).string();
}

bool is_compressed_tar_name(std::string_view name) noexcept {
  return !name.starts_with('.') && (name.ends_with(".tar.gz") || name.ends_with(".tgz") ||
                                    name.ends_with(".tar.zst") || name.ends_with(".tar.zstd"));
}

bool is_sample_shard_name(std::string_view name) {
  const std::string plain = plain_shard_name(name);
  return std::ranges::any_of(shard_formats(), [&](const ShardFormat* format) {
    if (format->is_array) return false;
    return (format->is_shard_name != nullptr && format->is_shard_name(plain)) ||
           (!format->ending.empty() && plain.ends_with("." + std::string(format->ending)));
  });
}

std::vector<std::string> left_out_shards(std::span<const std::string> names,
                                         const ShardFormat* format, bool only_format) {
  std::set<std::string> plain;
  for (const std::string& name : names) plain.insert(plain_shard_name(name));
  const auto looks_like = [&](const std::string& name, const ShardFormat& other) {
    if (other.is_shard_name == nullptr || !other.is_shard_name(name)) return false;
    if (&other == &npy_format() && format != &npy_format()) return false;
    return &other != &megatron_format() ||
           plain.contains(std::filesystem::path(name).replace_extension(".bin").string());
  };
  std::vector<std::string> left_out;
  for (const std::string& name : names) {
    const bool is_taken = format != nullptr && format->is_shard_name != nullptr
                              ? format->is_shard_name(name)
                              : name.ends_with(".bin");
    if (is_taken || name.starts_with('.')) continue;
    const std::string shard = plain_shard_name(name);
    for (const ShardFormat* const other : shard_formats())
      if ((!only_format || other == format) && looks_like(shard, *other)) {
        left_out.push_back(name);
        break;
      }
  }
  return left_out;
}

Status refuse_mixed_directory(const std::string& directory, std::span<const std::string> left_out) {
  constexpr std::size_t kNamesShown = 3;
  std::string names;
  for (std::size_t i = 0; i < std::min(left_out.size(), kNamesShown); ++i)
    names += (i == 0 ? "" : ", ") + left_out[i];
  if (left_out.size() > kNamesShown)
    names += " and " + std::to_string(left_out.size() - kNamesShown) + " more";
  return Status(Code::invalid_argument,
                directory +
                    ": contains shards of several kinds, and these would be left out: " + names +
                    "; move them into a directory of their own, or name the files to read by a "
                    "pattern. Convert compressed tars: stoker convert PATTERN OUT --format tar");
}

std::string numbered_key(std::string_view shard_name, std::uint64_t number) {
  return shard_stem(shard_name) + "/" + std::to_string(number);
}

}  // namespace stoker
