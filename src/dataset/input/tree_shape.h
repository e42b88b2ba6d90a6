/// \file
/// Detects the structure of a tree of files to be packed: classes, splits of classes, images of
/// several kinds.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "dataset/input/input_walk.h"
#include "stoker/status.h"

namespace stoker::internal {

/// The key of the sample that a file belongs to.
std::string_view tree_key_of(std::string_view name);

/// Whether two files with the same key are two images of the same kind. The arguments are the parts
/// of their names after the first dot: "jpg" and "PNG", or "001.jpg" and "002.jpg"; but not "jpg"
/// and its mask, "seg.png".
bool are_rivals(std::string_view one, std::string_view other);

/// The keys that have an image.
std::set<std::string_view> image_keys(const std::vector<TreeFile>& files);

/// Whether a tree has one directory per class, with images in these directories and nowhere else.
/// There may be other files (a README, a Thumbs.db), if they are fewer than the images, there is
/// more than one class, and none belongs to an image by its name, as a caption does: the files are
/// then samples of several fields. A directory without images (notes/) is not a class and is
/// ignored, unless its files have the names of images, as annotations do.
struct ClassLook {
  std::string why_not;          ///< The first file that contradicts this, and why; empty if none.
  std::size_t class_count = 0;  ///< Top-level directories with images.
};
ClassLook look_at_classes(const std::vector<TreeFile>& files);

/// Returns a warning if directories of images are packed without labels; empty if that is expected.
std::string warn_of_no_classes(const ClassLook& look, const std::vector<TreeFile>& files);

/// Returns a warning, with the commands that pack each split, if the top-level directories have
/// names such as train and val; empty otherwise. `has_classes`: they are packed as classes.
/// `destination` may be empty.
std::string warn_of_splits(const std::string& root, const std::vector<TreeFile>& files,
                           bool has_classes, const std::string& destination);

/// `invalid_argument` if the files of a tree are mostly shards of samples, which would be packed
/// as files. Descriptions beside them (JSON, Parquet, text, indexes) do not count.
Status refuse_shards(const std::string& root, const std::vector<TreeFile>& files);

/// Says that `path` is shards already, and what to do with them.
Status already_shards(const std::string& path);

/// If each sample has one image, under different field names, returns a note with the name that
/// reads all of them: "jpg;png"; empty otherwise.
std::string describe_image_fields(const std::vector<TreeFile>& files);

}  // namespace stoker::internal
