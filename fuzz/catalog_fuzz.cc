// Any text as `.catalog`, with checksums that are right. Each line that is accepted is written and
// read again as the same. Then a directory is listed with that file, and with every line made out
// to be of the one checkpoint there: whatever it says, the checkpoint is listed.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "checkpoint/catalog.h"
#include "fuzz/scratch_directory.h"
#include "io/file_ops.h"

namespace stoker {
namespace {

constexpr const char* kStep = "step-000000000001";

void require(bool condition) {
  if (!condition) std::abort();
}

class Target {
 public:
  Target() {
    scratch_.make(kStep);
    CheckpointManifest manifest;
    manifest.step = 1;
    manifest.generation = 1;
    scratch_.write(std::string(kStep) + "/manifest.json", format_checkpoint_manifest(manifest));
    Result<CheckpointDirectory> directory =
        CheckpointDirectory::open(posix_file_ops(), scratch_.path());
    require(directory.ok());
    directory_.push_back(*std::move(directory));
    const Result<FileInfo> info =
        posix_file_ops().info_of(directory_[0].at(std::string(kStep) + "/manifest.json"));
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
      if (lines->empty() && std::exchange(has_listed_none_, true)) continue;  // as it was before
      scratch_.write(std::string(kCatalogName), *lines);
      CatalogReader reader(directory_[0]);
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

  ScratchDirectory scratch_;
  std::vector<CheckpointDirectory> directory_;  // one
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
