#include "dataset/input/tree_shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/shell_quote.h"
#include "dataset/shards/shard_names.h"
#include "formats/webdataset/webdataset_names.h"

namespace stoker::internal {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), to_lower_case);
  return out;
}

bool is_image_name(std::string_view name) {
  constexpr std::array<std::string_view, 11> kImages = {"jpg", "jpeg", "png", "webp", "bmp", "gif",
                                                        "tif", "tiff", "ppm", "jp2",  "avif"};
  const std::string extension = lower(name.substr(name.rfind('.') + 1));
  return std::find(kImages.begin(), kImages.end(), extension) != kImages.end();
}

bool is_split_name(std::string_view name) {
  constexpr std::array<std::string_view, 10> kSplits = {"train",      "training", "val",  "valid",
                                                        "validation", "dev",      "eval", "test",
                                                        "testing",    "holdout"};
  return std::find(kSplits.begin(), kSplits.end(), lower(name)) != kSplits.end();
}

/// Whether a file describes shards, or anything else, and does not count among samples.
bool is_description(std::string_view name) {
  constexpr std::array<std::string_view, 8> kEndings = {"json", "jsonl", "parquet", "idx",
                                                        "txt",  "md",    "csv",     "yaml"};
  return std::ranges::find(kEndings, lower(name.substr(name.rfind('.') + 1))) != kEndings.end();
}

std::string_view stem_of(std::string_view name) {
  const std::string_view key = tree_key_of(name);
  return key.substr(key.rfind('/') + 1);
}

/// Whether files of a directory without images, such as annotations/0001.xml, belong to images by
/// their names: to at least half of the images, and to more than one.
bool describes_images(const std::set<std::string_view>& others,
                      const std::set<std::string_view>& images) {
  const auto count = static_cast<std::size_t>(
      std::ranges::count_if(others, [&](std::string_view stem) { return images.contains(stem); }));
  return count > 1 && 2 * count >= images.size();
}

/// The files of each top-level directory, with names relative to it.
std::map<std::string, std::vector<TreeFile>> by_top_directory(const std::vector<TreeFile>& files) {
  std::map<std::string, std::vector<TreeFile>> parts;
  for (const TreeFile& file : files) {
    const std::size_t slash = file.name.find('/');
    if (slash == std::string::npos) continue;
    TreeFile below = file;
    below.name.erase(0, slash + 1);
    parts[file.name.substr(0, slash)].push_back(std::move(below));
  }
  return parts;
}

}  // namespace

std::string_view tree_key_of(std::string_view name) {
  const std::optional<MemberName> split = split_member_name(name);
  return split ? split->key : name;
}

bool are_rivals(std::string_view one, std::string_view other) {
  if (!is_image_name(one) || !is_image_name(other)) return false;
  const auto ending = [](std::string_view name) { return lower(name.substr(name.rfind('.') + 1)); };
  const bool are_plain = one.find('.') == std::string_view::npos && other.find('.') == one.npos;
  return are_plain || ending(one) == ending(other);
}

std::set<std::string_view> image_keys(const std::vector<TreeFile>& files) {
  std::set<std::string_view> keys;
  for (const TreeFile& file : files)
    if (is_image_name(file.name)) keys.insert(tree_key_of(file.name));
  return keys;
}

ClassLook look_at_classes(const std::vector<TreeFile>& files) {
  const std::set<std::string_view> images = image_keys(files);
  std::map<std::string_view, std::set<std::string_view>>
      folders;  // stems of other files than images
  std::set<std::string_view> classes;
  std::set<std::string_view> stems;
  std::size_t image_count = 0;
  std::size_t other_count = 0;
  std::string why_not;  // the first reason
  std::string_view stray;
  const auto refuse = [&](std::string_view name, std::string_view why) {
    if (why_not.empty()) why_not = fmt::format("{} {}", name, why);
  };
  for (const TreeFile& file : files) {
    const std::string_view name = file.name;
    const bool is_image = is_image_name(name);
    const auto depth = std::count(name.begin(), name.end(), '/');
    if (is_image && depth == 0) refuse(file.path(), "is an image in no directory");
    if (is_image && depth > 1) refuse(file.path(), "is an image in a nested directory");
    if (!is_image && images.contains(tree_key_of(name)))
      refuse(file.path(), "belongs to an image by its name");
    image_count += is_image ? 1 : 0;
    other_count += is_image ? 0 : 1;
    if (!is_image && stray.empty()) stray = name;
    if (depth == 0) continue;
    const std::string_view folder = name.substr(0, name.find('/'));
    if (is_image) {
      classes.insert(folder);
      stems.insert(stem_of(name));
    } else {
      folders[folder].insert(stem_of(name));
    }
  }
  if (!why_not.empty()) return {.why_not = why_not, .class_count = classes.size()};
  if (other_count == 0)
    return {.why_not = files.empty() ? "there are no files" : "", .class_count = classes.size()};
  for (const auto& [folder, others] : folders) {
    if (classes.contains(folder)) continue;
    if (describes_images(others, stems)) refuse(folder, "has files with the names of images");
    for (const TreeFile& file : files)
      if (std::string_view(file.name).starts_with(std::string(folder) + "/")) --other_count;
  }
  if (classes.size() == 1) refuse(stray, "is next to a single directory of images");
  if (other_count >= image_count)
    refuse(stray, "and other files are at least as many as the images");
  if (classes.empty()) refuse(stray, "and other files are not images");
  return {.why_not = why_not, .class_count = classes.size()};
}

std::string warn_of_no_classes(const ClassLook& look, const std::vector<TreeFile>& files) {
  if (look.why_not.empty() || look.class_count == 0) return "";
  const bool is_beside = std::ranges::any_of(
      files, [](const TreeFile& file) { return file.name.find('/') == std::string::npos; });
  if (look.class_count == 1 && !is_beside)
    return "";  // one folder of samples, such as images/ and labels/
  return fmt::format(
      "packed without labels (no \"cls\"), because {}; --from classes (kind=\"classes\" in Python) "
      "packs each directory at the top as a class",
      look.why_not);
}

std::string warn_of_splits(const std::string& root, const std::vector<TreeFile>& files,
                           bool has_classes, const std::string& destination) {
  for (const TreeFile& file : files) {  // checked before anything is copied: most trees end here
    const std::string_view top = std::string_view(file.name).substr(0, file.name.find('/'));
    if (top.size() != file.name.size() && !is_split_name(top)) return "";
  }
  const std::map<std::string, std::vector<TreeFile>> parts = by_top_directory(files);
  if (parts.empty()) return "";
  const auto is_labelled = [](const auto& part) {
    return look_at_classes(part.second).why_not.empty();
  };
  const bool are_labelled = std::all_of(parts.begin(), parts.end(), is_labelled);
  if (!has_classes && !are_labelled) return "";
  std::vector<std::string> names;
  std::string commands;
  std::string first = "train";  // the others take its class numbers
  if (!parts.contains(first)) first = parts.begin()->first;
  for (const auto& [name, ignored] : parts) names.push_back(name);
  std::stable_partition(names.begin(), names.end(), [&](const auto& n) { return n == first; });
  std::string target = destination.empty() ? "DST" : destination;
  while (target.size() > 1 && target.ends_with('/')) target.pop_back();
  for (const std::string& name : names) {
    commands += fmt::format("\n  stoker pack {} {}", shell_quote(root + "/" + name),
                            shell_quote(target + "-" + name));
    if (are_labelled && name != first)
      commands += " --classes " + shell_quote(target + "-" + first + "/classes.json");
  }
  return fmt::format(
      "{} in {} look like splits{}, but are packed {}; to pack each of them into its own "
      "directory:{}",
      fmt::join(names, ", "), root, are_labelled ? " of labelled images" : "",
      has_classes ? "as the classes" : "as one dataset without labels (no \"cls\")", commands);
}

Status already_shards(const std::string& path) {
  return Status(Code::invalid_argument,
                path +
                    ": these are shards already: read them in place, or use stoker convert for "
                    "another format or order");
}

Status refuse_shards(const std::string& root, const std::vector<TreeFile>& files) {
  const auto shards = std::ranges::count_if(
      files, [](const TreeFile& file) { return is_sample_shard_name(file.name); });
  const auto others = std::ranges::count_if(files, [](const TreeFile& file) {
    return !is_sample_shard_name(file.name) && !is_description(file.name);
  });
  if (shards == 0 || others > shards) return {};
  const auto first = std::ranges::find_if(
      files, [](const TreeFile& file) { return is_sample_shard_name(file.name); });
  const Status refused = already_shards(root + "/" + first->path());
  return {refused.code(),
          std::string(refused.message()) + ". --from tree packs them as files nevertheless"};
}

std::string describe_image_fields(const std::vector<TreeFile>& files) {
  std::map<std::string, std::uint64_t> counts;
  std::string_view last;
  for (const TreeFile& file : files) {
    if (!is_image_name(file.name)) continue;
    const std::optional<MemberName> split = split_member_name(file.name);
    if (!split || split->key == last)
      return "";  // several images in a sample have different meanings
    last = split->key;
    ++counts[lower(split->extension)];
  }
  if (counts.size() < 2) return "";
  std::vector<std::string> names;
  std::vector<std::string> parts;
  for (const auto& [name, count] : counts) {
    names.push_back(name);
    parts.push_back(fmt::format("{} ({})", name, count));
  }
  return fmt::format("the images are in {} fields: {}; \"{}\" reads the one that a sample has",
                     counts.size(), fmt::join(parts, ", "), fmt::join(names, ";"));
}

}  // namespace stoker::internal
