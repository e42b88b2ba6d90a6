#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "dataset/sample_source.h"
#include "dataset/sample_source_walk.h"
#include "formats/strict_json.h"
#include "formats/webdataset_names.h"

namespace stoker {
namespace {

using internal::TreeFile;
using internal::TreeFiles;

constexpr std::string_view kClassField = "cls";

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

std::string_view key_of(std::string_view name) {
  const std::optional<MemberName> split = split_member_name(name);
  return split ? split->key : name;
}

/// The keys that have an image.
std::set<std::string_view> image_keys(const std::vector<TreeFile>& files) {
  std::set<std::string_view> keys;
  for (const TreeFile& file : files)
    if (is_image_name(file.name)) keys.insert(key_of(file.name));
  return keys;
}

/// A directory for each class, images in each of them and nowhere else. Other files may lie about
/// (a README, a Thumbs.db), as long as they are fewer, there are classes to tell apart, and none
/// belongs to an image by its name, as a caption does: then they are samples of several fields.
bool looks_like_classes(const std::vector<TreeFile>& files) {
  const std::set<std::string_view> images = image_keys(files);
  std::map<std::string_view, bool> folders;  // whether an image lies in them
  std::size_t image_count = 0;
  for (const TreeFile& file : files) {
    const bool is_image = is_image_name(file.name);
    const auto depth = std::count(file.name.begin(), file.name.end(), '/');
    if (is_image && depth != 1) return false;
    if (!is_image && images.contains(key_of(file.name))) return false;
    image_count += is_image ? 1 : 0;
    if (depth != 0) folders[std::string_view(file.name).substr(0, file.name.find('/'))] |= is_image;
  }
  const bool has_images_in_all =
      std::all_of(folders.begin(), folders.end(), [](const auto& folder) { return folder.second; });
  const std::size_t other_count = files.size() - image_count;
  if (other_count == 0) return !files.empty();
  return has_images_in_all && folders.size() > 1 && other_count < image_count;
}

class TreeSource final : public SampleSource {
 public:
  TreeSource(std::string root, bool has_classes)
      : root_(std::move(root)), reader_(root_), has_classes_(has_classes) {}

  Status add_files(TreeFiles tree) {
    left_out_ = std::move(tree.left_out);
    if (has_classes_) leave_out_strays(tree.files);
    for (TreeFile& file : tree.files) {
      if (!split_member_name(file.name) || is_metadata_name(file.name)) {
        left_out_.push_back(file.name + ": no extension to name its field by");
        continue;
      }
      files_.push_back(std::move(file));
    }
    std::sort(files_.begin(), files_.end(),
              [](const TreeFile& a, const TreeFile& b) { return a.name < b.name; });
    STOKER_TRY(group());
    if (has_classes_) leave_out_empty(tree.folders);
    if (samples_.empty())
      return Status(Code::invalid_argument,
                    root_ +
                        ": no files to pack in it (hidden ones and those without an extension "
                        "do not count)");
    return {};
  }

  std::uint64_t sample_count() const noexcept override { return samples_.size(); }

  Result<Extent> extent(std::uint64_t sample) const override {
    Extent extent{.size_bytes = 0, .field_count = has_classes_ ? 1U : 0U};
    for (const TreeFile& file : files_of(sample)) {
      extent.size_bytes += file.size_bytes;
      ++extent.field_count;
    }
    return extent;
  }

  Status read(std::uint64_t sample, SourceSample& out) const override {
    SampleView& view = out.view;
    view.clear();
    const std::span<const TreeFile> files = files_of(sample);
    if (out.files.size() < files.size()) out.files.resize(files.size());
    for (std::size_t i = 0; i < files.size(); ++i) {
      const MemberName name = *split_member_name(files[i].name);
      view.key = name.key;
      STOKER_ASSIGN(const std::span<const std::byte> bytes, read_file(files[i], out.files[i]));
      const std::string_view field = internal::keep_text(view, lower(name.extension));
      view.fields.push_back({.name = field, .bytes = bytes, .type = type_of_extension(field)});
    }
    if (has_classes_) {
      const std::int64_t number = class_of(sample);
      view.fields.push_back({.name = kClassField,
                             .bytes = internal::keep_number(view, &number),
                             .type = FieldType::int64});
    }
    return {};
  }

  std::string describe(std::uint64_t sample) const override {
    return root_ + "/" + files_of(sample).front().name;
  }

  Digest128 fingerprint() const override {
    Xxh3Stream stream;
    for (const TreeFile& file : files_) {
      const std::array<std::uint64_t, 3> numbers = {file.name.size(), file.size_bytes,
                                                    static_cast<std::uint64_t>(file.mtime_ns)};
      stream.update(std::as_bytes(std::span(numbers)));
      stream.update(std::as_bytes(std::span(file.name)));
    }
    stream.update(std::as_bytes(std::span(&has_classes_, 1)));
    return stream.digest();
  }

  Result<std::vector<std::pair<std::string, std::string>>> mds_columns() const override {
    std::vector<std::pair<std::string, std::string>> columns;
    for (const TreeFile& file : files_of(0)) {
      const std::string field = lower(split_member_name(file.name)->extension);
      columns.emplace_back(field, internal::mds_encoding_of_extension(field));
    }
    if (has_classes_) columns.emplace_back(kClassField, "int");
    return columns;
  }

  std::vector<std::pair<std::string, std::string>> extra_files() const override {
    if (!has_classes_) return {};
    nlohmann::ordered_json numbers = nlohmann::ordered_json::object();
    for (const auto& [name, number] : classes_) numbers[name] = number;
    return {{"classes.json", numbers.dump(1) + "\n"}};
  }

  std::vector<std::string> left_out() const override { return left_out_; }
  bool is_scattered() const noexcept override { return true; }

 private:
  struct Group {
    std::uint64_t first = 0;  // in files_
    std::uint64_t count = 0;
  };

  std::span<const TreeFile> files_of(std::uint64_t sample) const {
    return std::span(files_).subspan(samples_[sample].first, samples_[sample].count);
  }

  /// Of classes of images, what has no image; and what lies in no class.
  void leave_out_strays(std::vector<TreeFile>& files) {
    const std::set<std::string_view> images = image_keys(files);
    std::vector<TreeFile> kept;
    for (const TreeFile& file : files) {
      const bool has_class = file.name.find('/') != std::string::npos;
      if (has_class && (images.empty() || images.contains(key_of(file.name)))) {
        kept.push_back(file);
        continue;
      }
      left_out_.push_back(file.name + (has_class ? ": not an image" : ": in no class"));
    }
    files = std::move(kept);
  }

  /// A class without a sample has no number.
  void leave_out_empty(const std::vector<std::string>& folders) {
    for (const std::string& folder : folders)
      if (!classes_.contains(folder)) left_out_.push_back(folder + ": no images");
  }

  /// Files with one key lie side by side in bytewise order: they share all up to the first dot.
  Status group() {
    for (std::uint64_t i = 0; i < files_.size(); ++i) {
      const MemberName name = *split_member_name(files_[i].name);
      const bool is_next =
          !samples_.empty() && split_member_name(files_[i - 1].name)->key == name.key;
      if (!is_next) samples_.push_back({.first = i, .count = 0});
      Group& sample = samples_.back();
      for (std::uint64_t k = sample.first; k < i; ++k)
        if (lower(split_member_name(files_[k].name)->extension) == lower(name.extension))
          return Status(Code::invalid_argument,
                        fmt::format("{}/{} and {}: one field of one sample twice, as names are "
                                    "turned into lower case; rename one",
                                    root_, files_[k].name, files_[i].name));
      if (has_classes_ && lower(name.extension) == kClassField)
        return Status(Code::invalid_argument,
                      fmt::format("{}/{}: \"cls\" is the number of the class; rename it, or pack "
                                  "with --from tree",
                                  root_, files_[i].name));
      ++sample.count;
      if (has_classes_) classes_.emplace(class_name(files_[i].name), 0);
    }
    std::int64_t number = 0;
    for (auto& [name, value] : classes_) {
      if (!is_utf8(name))
        return Status(Code::invalid_argument,
                      root_ + ": the class " + quote_for_message(name) +
                          " is not UTF-8, which classes.json is; rename it");
      value = number++;
    }
    return {};
  }

  static bool is_utf8(const std::string& text) {
    try {
      return !nlohmann::json(text).dump().empty();
    } catch (const nlohmann::json::exception&) {
      return false;
    }
  }

  static std::string class_name(const std::string& name) { return name.substr(0, name.find('/')); }

  std::int64_t class_of(std::uint64_t sample) const {
    return classes_.at(class_name(files_of(sample).front().name));
  }

  Result<std::span<const std::byte>> read_file(const TreeFile& file, FileMemory& memory) const {
    const std::string path = root_ + "/" + file.name;
    STOKER_ASSIGN(const std::span<const std::byte> bytes,
                  reader_.read(path, file.size_bytes, memory));
    if (bytes.size() == file.size_bytes) return bytes;
    return Status(Code::unavailable,
                  fmt::format("{}: {} than when it was listed; pack it again when nobody writes "
                              "to it",
                              path, bytes.size() < file.size_bytes ? "shorter" : "longer"));
  }

  std::string root_;
  WholeFileReader reader_;
  bool has_classes_;
  std::vector<TreeFile> files_;
  std::vector<Group> samples_;
  std::map<std::string, std::int64_t> classes_;  // bytewise order
  std::vector<std::string> left_out_;
};

}  // namespace

namespace internal {

Result<std::unique_ptr<SampleSource>> open_tree(const std::string& directory,
                                                std::optional<bool> has_classes,
                                                const std::string& excluded_directory) {
  STOKER_ASSIGN(TreeFiles tree, walk_tree(directory, excluded_directory));
  auto source =
      std::make_unique<TreeSource>(directory, has_classes.value_or(looks_like_classes(tree.files)));
  STOKER_TRY(source->add_files(std::move(tree)));
  return std::unique_ptr<SampleSource>(std::move(source));
}

}  // namespace internal
}  // namespace stoker
