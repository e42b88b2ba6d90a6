// Any text as `.catalog`, with correct checksums. Each accepted line must survive a round trip.
// Then a directory with one checkpoint is listed with that file, and again with every line changed
// to name that checkpoint: the checkpoint must be listed in any case.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "checkpoint/catalog/catalog.h"
#include "checkpoint/directory/checkpoint_directory.h"
#include "fuzz/json_text_mutator.h"
#include "fuzz/memory_file_ops.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace stoker {
namespace {

constexpr const char* kStep = "step-000000000001";
constexpr const char* kManifest = "step-000000000001/manifest.json";

void require(bool condition) {
  if (!condition) std::abort();
}

class Target {
 public:
  Target() {
    CheckpointManifest manifest;
    manifest.step = 1;
    manifest.generation = 1;
    ops_.write(kManifest, format_checkpoint_manifest(manifest));
    const Result<FileInfo> info = ops_.info_of(directory_.at(kManifest));
    require(info.ok());
    info_ = *info;
  }

  void run(std::string_view text) {
    std::string sealed;
    std::string about_it;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      read_line(text.substr(0, end), sealed, about_it);
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    for (const std::string* lines : {&sealed, &about_it}) {
      if (lines->empty() && std::exchange(has_listed_none_, true)) continue;  // tested before
      ops_.write(kCatalogName, *lines);
      CatalogReader reader(directory_);
      const Result<Catalog> catalog = reader.list();
      require(catalog.ok() && catalog->steps.size() == 1);
      require(catalog->steps[0].is_valid() || catalog->steps[0].problem.code() == Code::corrupt);
      if (lines == &sealed) require(catalog->newest() != nullptr);
    }
  }

 private:
  void read_line(std::string_view line, std::string& sealed, std::string& about_it) {
    constexpr std::size_t kDigestChars = 32;
    static_cast<void>(parse_catalog_line(line));
    if (line.size() > kDigestChars && line[kDigestChars] == ' ')
      line.remove_prefix(kDigestChars + 1);
    const std::string whole = xxh3_128(std::as_bytes(std::span(line.data(), line.size()))).hex() +
                              " " + std::string(line);
    std::optional<CatalogLine> parsed = parse_catalog_line(whole);
    if (!parsed) return;
    sealed += whole + "\n";
    std::string written = format_catalog_line(*parsed);
    written.pop_back();
    const auto again = parse_catalog_line(written);
    require(again.has_value() && format_catalog_line(*again) == written + "\n");
    parsed->name = kStep;
    parsed->inode = info_.inode;
    parsed->size_bytes = info_.size_bytes;
    parsed->modified_ns = info_.modified_ns;
    about_it += format_catalog_line(*parsed);
  }

  MemoryFileOps ops_;
  const CheckpointDirectory directory_ = ops_.directory();
  FileInfo info_;
  bool has_listed_none_ = false;
};

}  // namespace
}  // namespace stoker

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static stoker::Target target;
  target.run(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}

/// Changes the first line as JSON for 12 of 16 seeds, otherwise the input as bytes.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  std::uint8_t* const end = data + size;
  std::uint8_t* const line_end = std::find(data, end, '\n');
  // After the checksum, which the target corrects.
  std::uint8_t* const begin = std::find(data, line_end, '{');
  if (begin == line_end || seed % 16 < 4) return LLVMFuzzerMutate(data, size, max_size);
  const std::vector<std::uint8_t> rest(line_end, end);
  const std::size_t taken = static_cast<std::size_t>(begin - data) + rest.size();
  const std::size_t line = stoker::mutate_json_input(
      begin, static_cast<std::size_t>(line_end - begin), max_size - taken, seed / 16, 0);
  std::copy(rest.begin(), rest.end(), begin + line);
  return taken + line;
}
