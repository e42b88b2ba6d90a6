#include "store/open_object.h"

#include <string_view>
#include <utility>

namespace stoker {
namespace {

template <typename T>
Result<std::unique_ptr<T>> not_null(Result<std::unique_ptr<T>> made, std::string_view method,
                                    const std::string& key = {}) {
  if (!made.ok() || *made != nullptr) return made;
  return Status(Code::invalid_argument, (key.empty() ? "" : key + ": ") + std::string(method) +
                                            " of an ObjectStore returned null");
}

}  // namespace

Result<std::unique_ptr<const Object>> open_object(ObjectStore& store, const std::string& key,
                                                  CachePolicy policy) {
  return not_null(store.open(key, policy), "open()", key);
}

Result<std::unique_ptr<RangeSource>> open_source(ObjectStore& store, std::uint32_t depth) {
  return not_null(store.make_source(depth), "make_source()");
}

Result<std::unique_ptr<Upload>> open_upload(ObjectStore& store, const std::string& key) {
  return not_null(store.upload(key), "upload()", key);
}

}  // namespace stoker
