// Any manifest through all code that reads a checkpoint. The text gets a correct checksum, and the
// files it names are created with the sizes it gives and correct checksums. Then the checkpoint is
// opened, read whole, in boxes and with strides into memory of exactly the size of its tensors,
// verified and compared with itself. AddressSanitizer detects accesses outside that memory.
//
// fuzz/manifest_mutator.h makes most inputs, so -runs=N is about N structured mutations.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/checksum.h"
#include "checkpoint/directory/checkpoint_directory.h"
#include "checkpoint/inspect/diff.h"
#include "checkpoint/inspect/verify.h"
#include "checkpoint/manifest/names.h"
#include "checkpoint/manifest/step_summary.h"
#include "checkpoint/restore/reader.h"
#include "fuzz/manifest_mutator.h"
#include "fuzz/scratch_directory.h"
#include "io/engine/engine_factory.h"

namespace stoker {
namespace {

constexpr std::uint64_t kFileBytesMax = std::uint64_t{64} << 10;
constexpr std::uint64_t kTensorBytesMax = std::uint64_t{64} << 10;
constexpr std::size_t kTensorsMax = 64;
constexpr std::size_t kPlacesMax = 64;

void require(bool condition) {
  if (!condition) std::abort();
}

void require_clean(const Status& status) {
  if (status.ok()) return;
  require(status.code() == Code::corrupt || status.code() == Code::unsupported ||
          status.code() == Code::invalid_argument);
  require(std::ranges::all_of(status.message(), [](char c) {
    return static_cast<unsigned char>(c) >= ' ' &&
           c != 0x7f;  // one line, whatever the name of a tensor
  }));
}

class Target {
 public:
  Target() { scratch_.make(kStep); }

  void run(std::string_view text) {
    const std::string sealed = seal_again(text);
    Result<CheckpointManifest> manifest = parse_checkpoint_manifest(sealed, "manifest.json");
    if (!manifest.ok()) {
      require_clean(manifest.status());
      return;
    }
    static_cast<void>(summarize(*manifest));
    if (!make_files(*manifest)) return;
    manifest->step = 1;  // of kStep: the reader refuses the manifest of another step
    scratch_.write(kStep + "/manifest.json", format_checkpoint_manifest(*manifest));
    Result<CheckpointDirectory> directory =
        CheckpointDirectory::open(posix_file_ops(), scratch_.path());
    require(directory.ok());
    const Result<CheckpointReader> reader = CheckpointReader::open(*directory, kStep, options());
    if (!manifest->places.empty() && !reader.ok()) {  // a file has the name of a place
      require_clean(reader.status());
      return;
    }
    require(reader.ok());
    read(*reader);
    static_cast<void>(verify_checkpoint(*directory, kStep, {.reader = options()}));
  }

 private:
  inline static const std::string kStep = "step-000000000001";

  static CheckpointReader::Options options() {
    return {.engine = make_engine_factory(EngineKind::sync), .thread_count = 1};
  }

  static std::string contents(std::uint64_t size_bytes) {
    std::string text(size_bytes, '\0');
    for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7 + i / 256);
    return text;
  }

  /// Creates the files of the manifest, those of all places together. Returns false if one would be
  /// too long for this test.
  bool make_files(CheckpointManifest& manifest) {
    if (manifest.places.size() > kPlacesMax) return false;
    for (const CheckpointFile& file : manifest.files)
      if (file.size_bytes > kFileBytesMax) return false;
    std::map<std::string, std::uint64_t> wanted;
    for (CheckpointFile& file : manifest.files) {
      const std::string text = contents(file.size_bytes);
      if (!text.empty()) file.chunks = {xxh3_128(std::as_bytes(std::span(text)))};
      wanted[file.name] = file.size_bytes;
      const auto there = files_.find(file.name);
      if (there == files_.end() || there->second != file.size_bytes)
        scratch_.write(kStep + "/" + file.name, text);
      files_[file.name] = file.size_bytes;
    }
    for (std::uint32_t place = 0; place < manifest.places.size(); ++place) {
      const std::string name = place_name(place);
      if (!wanted.emplace(name, 0).second) continue;
      if (!files_.contains(name)) scratch_.write(kStep + "/" + name, "");
      files_.emplace(name, 0);
    }
    std::erase_if(files_, [&](const auto& file) {
      if (wanted.contains(file.first)) return false;
      std::filesystem::remove(scratch_.path() + "/" + kStep + "/" + file.first);
      return true;
    });
    return true;
  }

  /// Targets, each with memory of exactly its size.
  struct Targets {
    std::vector<ReadTarget> all;
    std::vector<std::unique_ptr<std::byte[]>> memory;

    void add(ReadTarget target, std::size_t size_bytes) {
      memory.push_back(std::make_unique<std::byte[]>(size_bytes));
      target.memory = std::span(memory.back().get(), size_bytes);
      all.push_back(std::move(target));
    }
    /// Reads all at once, because each call starts threads; one by one if any is refused.
    void read_from(const CheckpointReader& reader) const {
      const Status status = reader.read_all(all);
      require_clean(status);
      if (status.ok()) return;
      for (const ReadTarget& target : all) require_clean(reader.read(target));
    }
  };

  static void read(const CheckpointReader& reader) {
    Targets whole;
    Targets boxes;
    std::uint64_t size_bytes = 0;
    for (const TensorInfo& tensor : reader.tensors()) {
      if (whole.all.size() == kTensorsMax || tensor.size_bytes > kTensorBytesMax) continue;
      size_bytes += tensor.size_bytes;
      if (size_bytes > 4 * kTensorBytesMax) break;
      add_boxes(reader, tensor, boxes);
      whole.add({.name = tensor.name}, tensor.size_bytes);
    }
    whole.read_from(reader);
    boxes.read_from(reader);
    for (ReadTarget target : whole.all) {
      if (target.memory.empty()) continue;
      target.memory = target.memory.first(target.memory.size() - 1);
      require(!reader.read(target).ok());
    }
    if (whole.all.size() != reader.tensors().size()) return;
    require_clean(diff_checkpoints(reader, reader).status());
    for (const TensorInfo& tensor : reader.tensors())
      require_clean(reader.digest_of(tensor).status());
  }

  /// Adds a box of a tensor without gaps; then the same box with gaps and negative strides.
  static void add_boxes(const CheckpointReader& reader, const TensorInfo& tensor, Targets& boxes) {
    ReadTarget box{.name = tensor.name};
    for (const std::uint64_t length : tensor.shape) {
      box.offsets.push_back(length / 3);
      box.shape.push_back(length - length / 3);
    }
    const Result<std::uint64_t> box_bytes = tensor_bytes(tensor.type, box.shape);
    if (!box_bytes.ok() || *box_bytes > kTensorBytesMax || box.shape.empty()) return;
    boxes.add(box, *box_bytes);
    const std::size_t item_bytes = tensor_type_bits(tensor.type) / 8;
    if (*box_bytes == 0 || tensor_type_bits(tensor.type) % 8 != 0) return;
    std::int64_t stride = -2 * static_cast<std::int64_t>(item_bytes);
    box.strides_bytes.assign(box.shape.size(), 0);
    for (std::size_t i = box.shape.size(); i > 0; --i) {
      box.strides_bytes[i - 1] = stride;
      stride *= static_cast<std::int64_t>(box.shape[i - 1]);
    }
    const std::size_t apart_bytes = 2 * *box_bytes - item_bytes;
    box.first_bytes = apart_bytes - item_bytes;
    boxes.add(box, apart_bytes);
    box = boxes.all.back();
    box.first_bytes -= item_bytes;  // one element is before the memory
    require(!reader.read(box).ok());
  }

  ScratchDirectory scratch_;
  std::map<std::string, std::uint64_t> files_;  // existing files, by name
};

}  // namespace
}  // namespace stoker

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static stoker::Target target;
  target.run(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  return stoker::mutate_manifest_input(data, size, max_size, seed, 8);
}
