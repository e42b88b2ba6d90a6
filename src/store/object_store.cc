#include "store/object_store.h"

namespace stoker {

Request request_of(const Object& object, std::uint64_t offset_bytes, std::span<std::byte> buffer) {
  const File* const file = object.file();
  return {.op = Op::read,
          .fd = file == nullptr ? -1 : file->buffered_fd(),
          .object = &object,
          .offset_bytes = offset_bytes,
          .buffer = buffer};
}

}  // namespace stoker
