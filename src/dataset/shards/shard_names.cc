#include "dataset/shards/shard_names.h"

#include <charconv>
#include <filesystem>
#include <optional>

#include "dataset/shards/shard_glob.h"

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

/// "000..123": every number, as wide as the first is written.
Result<std::vector<std::string>> count(std::string_view pattern, std::string_view first,
                                       std::string_view last) {
  const auto from = number(first);
  const auto to = number(last);
  if (!from || !to) return bad_pattern(pattern, "{a..b} counts with whole numbers");
  if (*to < *from) return bad_pattern(pattern, "{a..b} counts upwards");
  if (*to - *from >= kShardNamesMax) return bad_pattern(pattern, "stands for too many names");
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

/// The first brace from `start` on that stands for something.
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
    start = close + 1;  // "{}" and "{x}" stand for themselves
  }
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
      return bad_pattern(pattern, "stands for too many names");
    std::vector<std::string> longer;
    longer.reserve(names.size() * brace->choices.size());
    for (const std::string& name : names)
      for (const std::string& choice : brace->choices) longer.push_back(name + choice);
    names = std::move(longer);
    done = brace->close + 1;
  }
}

Result<std::vector<std::string>> find_shards(std::string_view pattern, ObjectStore& store) {
  constexpr std::string_view kFileScheme = "file://";
  if (store.is_local() && pattern.starts_with(kFileScheme))
    pattern.remove_prefix(kFileScheme.size());
  if (store.is_local() && pattern.find("://") != std::string_view::npos)
    return Status(Code::unsupported, std::string(pattern) +
                                         ": only files are read in place; copy it to a local "
                                         "directory first");
  // A real name may contain braces and glob characters: it then stands for itself.
  if (store.look(std::string(pattern)).ok()) return std::vector{std::string(pattern)};
  STOKER_ASSIGN(const std::vector<std::string> names, expand_braces(pattern));
  std::vector<std::string> shards;
  for (const std::string& name : names) {
    const Status looked = store.look(name).status();
    if (looked.ok()) {
      shards.push_back(name);
    } else if (internal::is_glob(name)) {
      STOKER_ASSIGN(const std::vector<std::string> matches, internal::match_glob(store, name));
      shards.insert(shards.end(), matches.begin(), matches.end());
    } else {
      return looked.os_error() != 0 ? Status::from_errno(looked.os_error(), "shard", name) : looked;
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

std::string numbered_key(std::string_view shard_name, std::uint64_t number) {
  return shard_stem(shard_name) + "/" + std::to_string(number);
}

}  // namespace stoker
