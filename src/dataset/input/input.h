/// \file
/// The inputs of `stoker pack` and `stoker convert`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "dataset/shard_dataset.h"
#include "dataset/shards/sample_key.h"
#include "formats/shard_format.h"
#include "io/files/whole_file.h"
#include "stoker/dtype.h"
#include "stoker/status.h"

namespace stoker {

/// A sample to be packed. Views point into `view.storage`, `record`, `files` or the input.
///
/// Thread safety: none.
struct InputSample {
  SampleView view;
  SampleRecord record;                 ///< The record, if the input is a ShardDataset.
  std::vector<FileMemory> files = {};  ///< Memory of files; reused for the next sample.
};

/// A file that is not packed.
struct LeftOut {
  std::string name;
  std::string why;
  bool operator==(const LeftOut&) const = default;
};

/// A list of samples that is complete before the first one is read, so that shards can be planned.
///
/// Thread safety: const methods from any thread.
class PackInput {
 public:
  virtual ~PackInput() = default;

  virtual std::uint64_t sample_count() const noexcept = 0;

  /// The size of a sample, for planning shards.
  struct Extent {
    std::uint64_t size_bytes = 0;
    std::uint64_t field_count = 1;
  };
  virtual Result<Extent> extent(std::uint64_t sample) const = 0;

  /// Reads one sample: key and fields, with their types if the input knows them. A JSON field has
  /// a `dtype` if it is a list of numbers of that type in every sample. The message of a failure
  /// names file and place.
  virtual Status read(std::uint64_t sample, InputSample& out) const = 0;

  /// Names a sample in messages: "data.jsonl: line 17".
  virtual std::string describe(std::uint64_t sample) const = 0;

  /// Changes if the list of samples, their sizes or their modification times change.
  virtual Digest128 fingerprint() const = 0;

  /// Names and encodings of the columns of an MDS dataset of these samples, without the key.
  /// `invalid_argument` if the samples do not have the same columns.
  virtual Result<std::vector<std::pair<std::string, std::string>>> mds_columns() const = 0;

  /// The dtype of token arrays, if all of them have the same.
  virtual std::optional<Dtype> token_dtype() const { return std::nullopt; }

  /// Files to write next to the shards: "classes.json" and its text.
  virtual std::vector<std::pair<std::string, std::string>> extra_files() const { return {}; }

  virtual std::vector<LeftOut> left_out() const { return {}; }

  /// Other notes for the user.
  virtual std::vector<std::string> notes() const { return {}; }

  /// Whether each sample needs to open files, so that several should be read at a time.
  virtual bool is_scattered() const noexcept { return false; }
};

struct PackInputOptions {
  /// "classes": one directory of images per class. "tree": files grouped by stem. "jsonl".
  /// "tokens": .npy and .bin arrays, including SHARD001 files; "raw", "counted", "shard001": arrays
  /// of that layout (raw_array.h). Empty: detected.
  std::string kind = {};
  std::optional<Dtype> dtype = {};      ///< Of arrays that do not store it.
  std::uint64_t sequence_length = 0;    ///< Cuts token arrays into sequences; 0: not cut.
  std::string excluded_directory = {};  ///< Skipped in trees: the destination.
  bool with_hidden = false;             ///< In trees: include names that begin with a dot.
  std::string classes = {};             ///< A classes.json with the numbers of a tree's classes.
};

/// Opens a file or directory. `not_found` if it does not exist, `invalid_argument` if it contains
/// nothing to pack; the message says what was looked for.
Result<std::unique_ptr<PackInput>> open_input(const std::string& path,
                                              const PackInputOptions& options = {});

/// Returns all kinds of data that `stoker pack` takes: those of PackInputOptions, with a kind for
/// each array format that names do not tell, and import_kinds().
std::vector<std::string> pack_kinds();
/// The same for texts: "classes, tree or text".
std::string list_pack_kinds();

/// Returns what was left out, by reason and with some of the names, and the notes; each one or more
/// lines.
std::vector<std::string> remarks_on(const PackInput& input);

/// Makes an input of the samples of an existing dataset. A field "__key__" becomes the key. Other
/// files in its manifest than shards and indexes ("classes.json") become extra files; fails if one
/// cannot be read.
Result<std::unique_ptr<PackInput>> make_dataset_input(std::shared_ptr<const ShardDataset> dataset);

namespace internal {

/// `has_classes`: nothing: detected.
Result<std::unique_ptr<PackInput>> open_tree(const std::string& directory,
                                             std::optional<bool> has_classes,
                                             const PackInputOptions& options);
Result<std::unique_ptr<PackInput>> open_jsonl(const std::string& path);
Result<std::unique_ptr<PackInput>> open_token_arrays(const std::string& path,
                                                     const PackInputOptions& options);

/// Whether a file with this name is an array: ".npy", ".bin".
bool is_array_name(std::string_view name);

/// The MDS encoding for a file with that extension: "jpeg", "png", "str", "json", "bytes".
std::string mds_encoding_of_extension(std::string_view extension);

/// read_exactly() for a file to be packed: `unavailable` if the file has become shorter.
Status read_input(int fd, std::uint64_t offset_bytes, std::span<std::byte> out,
                  const std::string& path);

}  // namespace internal
}  // namespace stoker
