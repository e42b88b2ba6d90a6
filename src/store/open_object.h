#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "stoker/store.h"

namespace stoker {

// Where Stoker opens something of a store, which may be one of the program: `invalid_argument` if
// that returns a null pointer.

Result<std::unique_ptr<const Object>> open_object(ObjectStore& store, const std::string& key,
                                                  CachePolicy policy = CachePolicy::automatic);
Result<std::unique_ptr<RangeSource>> open_source(ObjectStore& store, std::uint32_t depth);
Result<std::unique_ptr<Upload>> open_upload(ObjectStore& store, const std::string& key);

}  // namespace stoker
