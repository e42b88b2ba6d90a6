/// \file
/// Where the shards of a dataset are: the store that their names mean, and the keys in it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "stoker/status.h"
#include "stoker/store.h"

namespace stoker {

struct ShardPlaces {
  std::shared_ptr<ObjectStore> store;
  std::vector<std::string> keys;
};

/// Returns the store of `names`, paths or URIs as open_store() takes them, which may have braces
/// and wildcards in their keys. With a store, the names are its keys already. `invalid_argument` if
/// they are in several stores.
Result<ShardPlaces> open_places(std::span<const std::string> names, const S3Options& s3,
                                std::shared_ptr<ObjectStore> store = nullptr);

}  // namespace stoker
