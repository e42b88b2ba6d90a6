#include "dataset/shards/shard_places.h"

#include <utility>

namespace stoker {
namespace {

/// The text that tells stores apart: "s3://bucket/", "https://host/", and nothing for local files.
std::string root_of(ObjectStore& store) {
  return store.is_local() ? std::string() : store.identity_of(".");
}

}  // namespace

Result<ShardPlaces> open_places(std::span<const std::string> names, const S3Options& s3,
                                std::shared_ptr<ObjectStore> store) {
  ShardPlaces places{.store = std::move(store), .keys = {}};
  if (places.store) {
    places.keys.assign(names.begin(), names.end());
    return places;
  }
  std::string root;
  for (const std::string& name : names) {
    STOKER_ASSIGN(StorePlace place, open_store(name, s3));
    if (!places.store) {
      places.store = std::move(place.store);
      root = root_of(*places.store);
    } else if (root_of(*place.store) != root) {
      return Status(Code::invalid_argument,
                    names.front() + " and " + name +
                        ": the shards of a dataset are in one directory tree, one bucket or one "
                        "server; open several datasets, and mix them");
    }
    places.keys.push_back(std::move(place.key));
  }
  if (!places.store) places.store = local_store();
  return places;
}

}  // namespace stoker
