/// \file
/// Packs into a bucket: the shards are made in a directory of this machine, and copied.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>

#include "io/files/file_ops.h"
#include "stoker/status.h"
#include "stoker/store.h"

namespace stoker {

struct PackUploadOptions {
  std::uint32_t objects_in_flight = 4;
  /// Called on any thread, one call at a time, with the bytes of finished files.
  std::function<void(std::uint64_t done_bytes, std::uint64_t size_bytes)> progress = {};
  std::stop_token stop = {};
};

/// Where a dataset is packed to if its destination is not a local directory: below `directory`,
/// under a name that only this destination has, so that a killed run finds its shards again.
std::string pack_staging_of(const std::string& directory, const std::string& destination);

/// `already_exists` if the folder has an object, `unsupported` if the store cannot be written to.
Status check_vacant(const StorePlace& folder);

/// Copies what the manifest of a packed directory names into a folder, each file verified, and the
/// manifest last, so that a folder that has one is complete. May be repeated. Then removes the
/// directory.
Status upload_packed(FileOps& ops, const std::string& directory, const StorePlace& folder,
                     const PackUploadOptions& options);

}  // namespace stoker
