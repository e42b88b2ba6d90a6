/// \file
/// manifest.json: lists the files of a packed dataset. docs/formats/manifest.md defines it. It is
/// written last, so a directory that has one was packed completely.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/checksum.h"
#include "dataset/shards/field_types.h"
#include "formats/plain_name.h"
#include "io/files/file_ops.h"
#include "stoker/status.h"
#include "stoker/store.h"
#include "store/local_store.h"

namespace stoker {

class ShardSource;

inline constexpr std::size_t kManifestBytesMax = std::size_t{256} << 20;

/// A file of the dataset; in Manifest::files one without samples: "index.json", "classes.json",
/// Megatron's ".idx".
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
  std::string dtype = {};  ///< For counted and shard001, whose files do not store it; else empty.
  FieldTypes types = {};   ///< Of fields whose names do not tell their types, without `bytes`.
  std::vector<ManifestShard> shards;
  std::vector<ManifestFile> files;
  std::string created_by;

  std::uint64_t sample_count() const noexcept;
  std::uint64_t size_bytes() const noexcept;  ///< Of the shards.
  bool operator==(const Manifest&) const = default;
};

/// `corrupt`, with the place: a missing or mistyped key, an invalid or duplicate name, an invalid
/// digest or dtype, totals that do not match the sums. `unsupported` for a newer version. Unknown
/// keys are ignored.
Result<Manifest> parse_manifest(std::string_view text);
std::string format_manifest(const Manifest& manifest);

/// Reads "<directory>/manifest.json"; `not_found` if there is none.
Result<Manifest> read_manifest(const std::string& directory, ObjectStore& store = *local_store());

/// The directory for the records of finished shards, until there is a manifest (pack_part.h).
PathAt pack_parts_directory(const PathAt& directory);

/// Compares the names and sizes of the shards of each whole directory with its manifest, if it has
/// one: `not_found` for a missing shard, `corrupt` for one of another size, `invalid_argument` for
/// an extra one. Contents are not read. A manifest.json of another tool (JSON, or lines of JSON,
/// without "created_by") is ignored; an invalid one is `corrupt`. Without a manifest, calls
/// check_pack_finished().
Status check_against_manifest(const ShardSource& source);

/// `invalid_argument` if the directory has records of an unfinished pack or ingest, and no
/// manifest.
Status check_pack_finished(const std::string& directory, ObjectStore& store);

/// Writes the manifest atomically and durably.
Status publish_manifest(FileOps& ops, const PathAt& directory, const Manifest& manifest);

}  // namespace stoker
