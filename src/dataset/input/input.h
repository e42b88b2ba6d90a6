/// \file
/// Where the samples of `stoker pack` and `stoker convert` come from.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "dataset/dataset.h"
#include "dataset/shards/sample_key.h"
#include "formats/dtype.h"
#include "formats/shard_format.h"
#include "io/files/whole_file.h"
#include "stoker/status.h"

namespace stoker {

/// A sample on its way into a shard. Views look into `view.storage`, `record`,
/// `files` or the source.
///
/// Thread safety: none.
struct InputSample {
  SampleView view;
  SampleRecord record;                 ///< What a Dataset read, for sources that are one.
  std::vector<FileMemory> files = {};  ///< What files were read into; kept for the next sample.
};

/// A file that is not packed.
struct LeftOut {
  std::string name;
  std::string why;
  bool operator==(const LeftOut&) const = default;
};

/// A list of samples, known in full before the first is read, so that shards can be planned.
///
/// Thread safety: const methods from any thread.
class PackInput {
 public:
  virtual ~PackInput() = default;

  virtual std::uint64_t sample_count() const noexcept = 0;

  /// How large a sample is, for cutting shards.
  struct Extent {
    std::uint64_t size_bytes = 0;
    std::uint64_t field_count = 1;
  };
  virtual Result<Extent> extent(std::uint64_t sample) const = 0;

  /// Reads one sample: key and fields, typed where the source knows the type. A JSON field has a
  /// `dtype` if it is a list of such numbers, and nothing else, in every sample. The message of a
  /// failure names file and place.
  virtual Status read(std::uint64_t sample, InputSample& out) const = 0;

  /// What the message about a sample calls it: "data.jsonl: line 17".
  virtual std::string describe(std::uint64_t sample) const = 0;

  /// Changes when the list of samples, their sizes or their times do.
  virtual Digest128 fingerprint() const = 0;

  /// Names and encodings of the columns an MDS dataset of these samples has, without the key.
  /// `invalid_argument` if they have no columns in common.
  virtual Result<std::vector<std::pair<std::string, std::string>>> mds_columns() const = 0;

  /// What its arrays are made of, where all of them are the same; for tokens.
  virtual std::optional<Dtype> token_dtype() const { return std::nullopt; }

  /// Files to write beside the shards: "classes.json" and its text.
  virtual std::vector<std::pair<std::string, std::string>> extra_files() const { return {}; }

  virtual std::vector<LeftOut> left_out() const { return {}; }

  /// What else the user should know before it is packed.
  virtual std::vector<std::string> notes() const { return {}; }

  /// Whether a sample costs an open of its own, so that several should be read at a time.
  virtual bool is_scattered() const noexcept { return false; }
};

struct PackInputOptions {
  /// "classes": a directory for each class, images in it. "tree": files grouped by stem. "jsonl".
  /// "tokens": .npy and .bin arrays, SHARD001 files among them; "raw", "counted", "shard001":
  /// arrays of that layout (raw_array.h). Empty: by what is there.
  std::string kind = {};
  std::optional<Dtype> dtype = {};      ///< Of arrays that do not say it themselves.
  std::uint64_t sequence_length = 0;    ///< Cuts token arrays into sequences; 0: as they are.
  std::string excluded_directory = {};  ///< Left out of trees: where the shards go.
  bool with_hidden = false;             ///< Of trees: files and directories that begin with a dot.
  std::string classes = {};  ///< A classes.json whose numbers the classes of a tree are to have.
};

/// Opens what `path` names. `not_found` if there is nothing, `invalid_argument` if it holds nothing
/// to pack; both say what was looked for.
Result<std::unique_ptr<PackInput>> open_input(const std::string& path,
                                              const PackInputOptions& options = {});

/// What was left out, by reason, some of the names each time, and the notes; each a line or more.
std::vector<std::string> remarks_on(const PackInput& source);

/// The samples of a dataset that is there already. A field "__key__" becomes the key.
/// Files that its manifest names beside shards and indexes ("classes.json") go along; `corrupt` and
/// the like if one cannot be read.
Result<std::unique_ptr<PackInput>> make_dataset_input(std::shared_ptr<const Dataset> dataset);

namespace internal {

/// `has_classes` empty: by what is there.
Result<std::unique_ptr<PackInput>> open_tree(const std::string& directory,
                                             std::optional<bool> has_classes,
                                             const PackInputOptions& options);
Result<std::unique_ptr<PackInput>> open_jsonl(const std::string& path);
Result<std::unique_ptr<PackInput>> open_token_arrays(const std::string& path,
                                                     const PackInputOptions& options);

/// What MDS calls a field that is a file of that ending: "jpeg", "png", "str", "json", "bytes".
std::string mds_encoding_of_extension(std::string_view extension);

/// read_exactly() of a file that is being packed: `unavailable` if it has become shorter.
Status read_input(int fd, std::uint64_t offset_bytes, std::span<std::byte> out,
                  const std::string& path);

}  // namespace internal
}  // namespace stoker
