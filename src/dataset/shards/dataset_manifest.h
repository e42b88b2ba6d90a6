/// \file
/// manifest.json: what a packed dataset consists of, file by file. docs/formats/manifest.md has the
/// rules. It is written last, so a directory that has one was packed to its end.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/checksum.h"
#include "formats/plain_name.h"
#include "io/files/file_ops.h"
#include "stoker/status.h"
#include "store/local_store.h"
#include "store/object_store.h"

namespace stoker {

class ShardSource;

inline constexpr std::size_t kManifestBytesMax = std::size_t{256} << 20;

/// A file of the dataset that holds no samples: "index.json", "classes.json", Megatron's ".idx".
struct ManifestFile {
  std::string name;
  std::uint64_t size_bytes = 0;
  Sha256Digest sha256 = {};

  bool operator==(const ManifestFile&) const = default;
};

struct ManifestShard {
  ManifestFile file;
  std::uint64_t sample_count = 0;

  bool operator==(const ManifestShard&) const = default;
};

struct Manifest {
  std::string format;      ///< "tar", "mds", "tfrecord", "megatron", "counted", "shard001".
  std::string dtype = {};  ///< Of counted and shard001, whose files do not say it; else empty.
  std::vector<ManifestShard> shards;
  std::vector<ManifestFile> files;
  std::string created_by;

  std::uint64_t sample_count() const noexcept;
  std::uint64_t size_bytes() const noexcept;  ///< Of the shards.
  bool operator==(const Manifest&) const = default;
};

/// `corrupt` names the place: a missing or mistyped key, a name that is none or a duplicate, a
/// digest or a dtype that is none, totals that are not the sums. `unsupported` for a newer version.
/// Keys it does not know are passed over.
Result<Manifest> parse_manifest(std::string_view text);
std::string format_manifest(const Manifest& manifest);

/// Reads "<directory>/manifest.json"; `not_found` if there is none.
Result<Manifest> read_manifest(const std::string& directory, ObjectStore& store = *local_store());

/// Where what is known of finished shards lies until there is a manifest (pack_part.h).
PathAt pack_parts_directory(const PathAt& directory);

/// Compares the names and sizes of the shards of each whole directory with its manifest, if it has
/// one: `not_found` for a shard that is missing, `corrupt` for one of another size,
/// `invalid_argument` for one too many. Contents are not read. A manifest.json that others have
/// written (JSON, or lines of JSON, that name no "created_by") is none; one that cannot be read is
/// `corrupt`. Without one, check_pack_finished() is asked.
Status check_against_manifest(const ShardSource& source);

/// `invalid_argument` if a pack or an ingest has left its records in the directory, and no
/// manifest.
Status check_pack_finished(const std::string& directory, ObjectStore& store);

/// Atomically and durably.
Status publish_manifest(FileOps& ops, const PathAt& directory, const Manifest& manifest);

}  // namespace stoker
