#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "dataset/input/input.h"
#include "dataset/input/input_walk.h"
#include "dataset/input/tree_shape.h"
#include "dataset/shards/shard_source.h"
#include "formats/json/strict_json.h"
#include "formats/utf8.h"
#include "formats/webdataset/webdataset_names.h"
#include "store/local_store.h"

namespace stoker {
namespace {

using internal::TreeFile;
using internal::TreeFiles;
using Classes = std::map<std::string, std::int64_t>;  // in bytewise order

constexpr std::size_t kClassesBytesMax = std::size_t{64} << 20;

constexpr std::string_view kClassField = "cls";

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), to_lower_case);
  return out;
}

/// "images/" becomes "images": messages join it with names.
std::string without_last_slash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

class TreeInput final : public PackInput {
 public:
  TreeInput(std::string root, bool has_classes, std::optional<Classes> given_classes)
      : root_(without_last_slash(std::move(root))),
        reader_(root_),
        has_classes_(has_classes),
        given_classes_(std::move(given_classes)) {}

  Status add_files(TreeFiles tree) {
    left_out_ = std::move(tree.left_out);
    if (has_classes_) leave_out_strays(tree.files);
    for (TreeFile& file : tree.files) {
      if (!split_member_name(file.name) || is_metadata_name(file.name)) {
        left_out_.push_back({.name = file.path(), .why = "no extension to name its field by"});
        continue;
      }
      files_.push_back(std::move(file));
    }
    std::sort(files_.begin(), files_.end(),
              [](const TreeFile& a, const TreeFile& b) { return a.name < b.name; });
    STOKER_TRY(group());
    if (has_classes_) leave_out_empty(tree.folders);
    if (std::string fields = internal::describe_image_fields(files_); !fields.empty())
      notes_.push_back(std::move(fields));
    if (samples_.empty())
      return Status(
          Code::invalid_argument,
          root_ +
              ": it contains no files to pack (hidden ones and those without an extension "
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

  Status read(std::uint64_t sample, InputSample& out) const override {
    SampleView& view = out.view;
    view.clear();
    const std::span<const TreeFile> files = files_of(sample);
    if (out.files.size() < files.size()) out.files.resize(files.size());
    for (std::size_t i = 0; i < files.size(); ++i) {
      const MemberName name = *split_member_name(files[i].name);
      view.key = name.key;
      STOKER_ASSIGN(const std::span<const std::byte> bytes, read_file(files[i], out.files[i]));
      const std::string_view field = view.keep(lower(name.extension));
      view.fields.push_back(
          {.name = field, .bytes = bytes, .type = type_of_extension(field), .is_implied = true});
    }
    if (has_classes_) {
      const std::int64_t number = class_of(sample);
      view.fields.push_back(
          {.name = kClassField, .bytes = view.keep_number(&number), .type = FieldType::int64});
    }
    return {};
  }

  std::string describe(std::uint64_t sample) const override {
    return root_ + "/" + files_of(sample).front().path();
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
    if (given_classes_)
      for (const auto& [name, text] : extra_files()) stream.update(std::as_bytes(std::span(text)));
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
    Json numbers = Json::object();
    for (const auto& [name, number] : classes_) numbers[name] = number;
    return {{"classes.json", numbers.dump({.indent_spaces = 1}) + "\n"}};
  }

  std::vector<LeftOut> left_out() const override { return left_out_; }
  std::vector<std::string> notes() const override { return notes_; }
  void add_note(std::string note) { notes_.push_back(std::move(note)); }
  bool is_scattered() const noexcept override { return true; }

 private:
  struct Group {
    std::uint64_t first = 0;  // in files_
    std::uint64_t count = 0;
  };

  std::span<const TreeFile> files_of(std::uint64_t sample) const {
    return std::span(files_).subspan(samples_[sample].first, samples_[sample].count);
  }

  /// Leaves out files that belong to no image, if the classes have images, and files in no class.
  void leave_out_strays(std::vector<TreeFile>& files) {
    const std::set<std::string_view> images = internal::image_keys(files);
    std::set<std::string> classes;  // directories without images are reported by name only
    for (const std::string_view key : images) classes.insert(class_name(std::string(key)));
    std::vector<TreeFile> kept;
    for (const TreeFile& file : files) {
      const bool has_class = file.name.find('/') != std::string::npos;
      if (has_class && (images.empty() || images.contains(internal::tree_key_of(file.name)))) {
        kept.push_back(file);
        continue;
      }
      if (has_class && !classes.contains(class_name(file.name))) continue;
      left_out_.push_back({.name = file.path(), .why = has_class ? "not an image" : "in no class"});
    }
    files = std::move(kept);
  }

  /// Reports the directories that are not classes because they have no samples.
  void leave_out_empty(const std::vector<std::string>& folders) {
    for (const std::string& folder : folders) {
      const std::string name = internal::visible_name(folder);
      if (!classes_.contains(name) || (given_classes_ && !seen_.contains(name)))
        left_out_.push_back({.name = folder, .why = "no images"});
    }
  }

  /// Groups files into samples. Files with the same key are adjacent in bytewise order: their names
  /// are the same up to the first dot.
  Status group() {
    for (std::uint64_t i = 0; i < files_.size(); ++i) {
      const MemberName name = *split_member_name(files_[i].name);
      const bool is_next =
          !samples_.empty() && split_member_name(files_[i - 1].name)->key == name.key;
      if (!is_next) samples_.push_back({.first = i, .count = 0});
      Group& sample = samples_.back();
      for (std::uint64_t k = sample.first; k < i; ++k)
        if (lower(split_member_name(files_[k].name)->extension) == lower(name.extension))
          return Status(
              Code::invalid_argument,
              fmt::format("{0}/{1} and {0}/{2}: the same field of one sample, because names are "
                          "converted to lower case; rename one",
                          root_, files_[k].path(), files_[i].path()));
        else if (has_classes_ &&
                 internal::are_rivals(name.extension, split_member_name(files_[k].name)->extension))
          return Status(Code::invalid_argument,
                        fmt::format("{0}/{1} and {0}/{2}: two images would be one sample, because "
                                    "their names are the same up to the first dot; rename one, "
                                    "such as 1.png to 1b.png, or photo.001.jpg to photo_001.jpg",
                                    root_, files_[k].path(), files_[i].path()));
      if (has_classes_ && lower(name.extension) == kClassField)
        return Status(Code::invalid_argument,
                      fmt::format("{}/{}: \"cls\" is the number of the class; rename it, or pack "
                                  "with --from tree",
                                  root_, files_[i].path()));
      ++sample.count;
      if (has_classes_) classes_.emplace(class_name(files_[i].name), 0);
    }
    return number_classes();
  }

  /// Numbers the classes as given, else in bytewise order.
  Status number_classes() {
    std::int64_t number = 0;
    for (auto& [name, value] : classes_) {
      if (!is_utf8(name))
        return Status(Code::invalid_argument,
                      root_ + ": the class " + quote_for_message(name) +
                          " is not UTF-8, which classes.json is; rename it");
      value = number++;
      if (given_classes_ && !given_classes_->contains(name))
        return Status(Code::invalid_argument,
                      root_ + ": the class " + quote_for_message(name) +
                          " is not in the file of --classes; add it there, after the others");
    }
    if (given_classes_) {
      for (const auto& [name, ignored] : classes_) seen_.insert(name);
      classes_ = *given_classes_;
    }
    return {};
  }

  static std::string class_name(const std::string& name) { return name.substr(0, name.find('/')); }

  std::int64_t class_of(std::uint64_t sample) const {
    return classes_.at(class_name(files_of(sample).front().name));
  }

  Result<std::span<const std::byte>> read_file(const TreeFile& file, FileMemory& memory) const {
    const std::string path = root_ + "/" + file.path();
    STOKER_ASSIGN(const std::span<const std::byte> bytes,
                  reader_.read(path, file.size_bytes, memory));
    if (bytes.size() == file.size_bytes) return bytes;
    return Status(
        Code::unavailable,
        fmt::format("{}: {} than when it was listed; pack it again when no other process writes "
                    "to it",
                    path, bytes.size() < file.size_bytes ? "shorter" : "longer"));
  }

  std::string root_;
  WholeFileReader reader_;
  bool has_classes_;
  std::vector<TreeFile> files_;
  std::vector<Group> samples_;
  std::optional<Classes> given_classes_;
  Classes classes_;
  std::set<std::string> seen_;  // the given classes that have samples
  std::vector<LeftOut> left_out_;
  std::vector<std::string> notes_;
};

/// Reads a classes.json: a distinct number per name.
Result<Classes> read_classes(const std::string& path) {
  STOKER_ASSIGN(const std::string text,
                internal::read_whole(*local_store(), path, kClassesBytesMax));
  STOKER_ASSIGN(const Json document, parse_strict_json(text, path));
  Classes classes;
  std::set<std::int64_t> numbers;
  bool is_valid = document.is_object() && !document.empty();
  for (const auto& [name, number] : document.sorted_items()) {
    is_valid = is_valid && number.is_number_integer() && number.get_int64() >= 0 &&
               numbers.insert(number.get_int64()).second;
    if (!is_valid) break;
    classes.emplace(name, number.get_int64());
  }
  if (is_valid) return classes;
  return Status(Code::invalid_argument,
                path +
                    ": not a classes.json as written by an earlier pack: an object with a "
                    "distinct number, 0 or more, for each class");
}

}  // namespace

namespace internal {

Result<std::unique_ptr<PackInput>> open_tree(const std::string& directory,
                                             std::optional<bool> has_classes,
                                             const PackInputOptions& options) {
  std::optional<Classes> given;
  if (!options.classes.empty()) {
    STOKER_ASSIGN(given, read_classes(options.classes));
  }
  STOKER_ASSIGN(TreeFiles tree,
                walk_tree(directory, options.excluded_directory, options.with_hidden));
  if (!has_classes) STOKER_TRY(refuse_shards(directory, tree.files));
  const ClassLook look = look_at_classes(tree.files);
  const bool is_labelled = has_classes.value_or(given || look.why_not.empty());
  auto input = std::make_unique<TreeInput>(directory, is_labelled, std::move(given));
  std::string splits =
      warn_of_splits(directory, tree.files, is_labelled, options.excluded_directory);
  std::string remark =
      !splits.empty() || is_labelled ? std::move(splits) : warn_of_no_classes(look, tree.files);
  if (!remark.empty() && has_classes != false) input->add_note(std::move(remark));
  STOKER_TRY(input->add_files(std::move(tree)));
  return std::unique_ptr<PackInput>(std::move(input));
}

}  // namespace internal
}  // namespace stoker
