/// \file
/// Reads tensors of a model into memory of one's own, as a server does when it starts.
///
///     serve PATH                     lists the tensors
///     serve PATH NAME                reads one, and prints a digest of its bytes
///     serve PATH NAME BEGIN END      reads rows BEGIN to END, without END
///
/// PATH is a safetensors file, a Hugging Face folder with or without an index, or a checkpoint of
/// Stoker, whose bytes are verified as they are read.
#include <stoker/checkpoint.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

std::string shape_of(const std::vector<std::uint64_t>& shape) {
  std::string text = "[";
  for (const std::uint64_t size : shape)
    text.append(text.size() > 1 ? ", " : "").append(std::to_string(size));
  return text + "]";
}

void list(const stoker::Checkpoint& model) {
  for (const stoker::TensorInfo& tensor : model.tensors())
    std::printf("%s %s %s\n", tensor.name.c_str(),
                std::string(stoker::tensor_type_name(tensor.type)).c_str(),
                shape_of(tensor.shape).c_str());
}

stoker::Status read(const stoker::Checkpoint& model, const std::string& name, const char* begin,
                    const char* end) {
  const stoker::TensorInfo* const tensor = model.find(name);
  if (tensor == nullptr)
    return {stoker::Code::not_found, model.path() + ": there is no tensor " + name};
  std::vector<std::uint64_t> offsets(tensor->shape.size());
  std::vector<std::uint64_t> shape = tensor->shape;
  if (begin != nullptr && !shape.empty()) {
    offsets[0] = std::strtoull(begin, nullptr, 10);
    shape[0] = std::strtoull(end, nullptr, 10) - offsets[0];
  }
  // Here it is a vector; a server has its own allocator, or memory of a GPU.
  STOKER_ASSIGN(const std::uint64_t size_bytes, stoker::tensor_bytes(tensor->type, shape));
  std::vector<std::byte> memory(size_bytes);
  STOKER_TRY(model.read(name, offsets, shape, memory));
  std::printf("%s %s %s %s %s\n", name.c_str(),
              std::string(stoker::tensor_type_name(tensor->type)).c_str(), shape_of(shape).c_str(),
              stoker::xxh3_128(memory).hex().c_str(),
              model.has_checksums() ? "verified" : "not verified: the files have no checksums");
  return {};
}

stoker::Status serve(int argc, char** argv) {
  // Through the page cache: several servers of a machine read the disk once.
  STOKER_ASSIGN(const stoker::Checkpoint model,
                stoker::Checkpoint::open(argv[1], {.cache = stoker::CachePolicy::buffered}));
  if (argc == 2) {
    list(model);
    return {};
  }
  return read(model, argv[2], argc == 5 ? argv[3] : nullptr, argc == 5 ? argv[4] : nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3 && argc != 5) {
    std::fputs("usage: serve PATH [NAME [BEGIN END]]\n", stderr);
    return 2;
  }
  const stoker::Status status = serve(argc, argv);
  if (status.ok()) return 0;
  std::fprintf(stderr, "serve: %.*s\n", static_cast<int>(status.message().size()),
               status.message().data());
  return 1;
}
