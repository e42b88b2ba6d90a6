/// \file
/// What a tree of files looks like to whoever packs it: classes, splits of classes, images of
/// several kinds.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "dataset/input/input_walk.h"

namespace stoker::internal {

/// The key of the sample that a file belongs to.
std::string_view tree_key_of(std::string_view name);

/// Whether two files of one key, with what follows the first dot of their names, are two images of
/// one kind: "jpg" and "PNG", or "001.jpg" and "002.jpg"; but not "jpg" and its mask, "seg.png".
bool are_rivals(std::string_view one, std::string_view other);

/// The keys that have an image.
std::set<std::string_view> image_keys(const std::vector<TreeFile>& files);

/// A directory for each class, images in each of them and nowhere else. Other files may lie about
/// (a README, a Thumbs.db), as long as they are fewer, there are classes to tell apart, and none
/// belongs to an image by its name, as a caption does: then they are samples of several fields. A
/// directory without a single image (notes/) is no class, and changes nothing, unless its files
/// have the names of images, as annotations do.
struct ClassLook {
  std::string why_not;          ///< the first file that speaks against it, and why; empty if none
  std::size_t class_count = 0;  ///< directories at the top that have images
};
ClassLook look_at_classes(const std::vector<TreeFile>& files);

/// A warning if directories of images are packed without labels; empty if that is no surprise.
std::string warn_of_no_classes(const ClassLook& look, const std::vector<TreeFile>& files);

/// A warning, with the commands that pack each split, if the directories at the top are called
/// train, val and the like; empty if not. `has_classes`: they are packed as classes. `destination`
/// may be empty.
std::string warn_of_splits(const std::string& root, const std::vector<TreeFile>& files,
                           bool has_classes, const std::string& destination);

/// What to read images by if each sample has one, under several names: "jpg;png"; empty if not.
std::string describe_image_fields(const std::vector<TreeFile>& files);

}  // namespace stoker::internal
