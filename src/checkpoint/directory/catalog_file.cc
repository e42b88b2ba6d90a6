#include "checkpoint/directory/catalog_file.h"

#include <fcntl.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "io/files/exact_transfer.h"
#include "io/files/text_file.h"

namespace stoker {
namespace {

constexpr std::size_t kFileBytesMax = std::size_t{256} << 20;
constexpr std::string_view kStagedName = "catalog";

}  // namespace

CatalogLines read_catalog_file(const CheckpointDirectory& directory) {
  CatalogLines lines;
  const Result<std::string> text =
      read_text_file(directory.ops(), directory.at(kCatalogName), kFileBytesMax);
  if (!text.ok()) return lines;
  for (std::size_t begin = 0; begin < text->size();) {
    const std::size_t end = std::min(text->find('\n', begin), text->size());
    const std::optional<CatalogLine> line =
        parse_catalog_line(std::string_view(*text).substr(begin, end - begin));
    if (line) lines[line->name] = *line;
    begin = end + 1;
  }
  return lines;
}

CatalogWriter::CatalogWriter(const OwnerDirectory& owner, const CatalogLines& lines)
    : ops_(owner.directory().ops()) {
  Result<UniqueFd> fd = ops_.open(owner.at(kStagedName), O_WRONLY | O_CREAT | O_EXCL);
  if (!fd.ok()) return;
  std::string text;
  for (const auto& [name, line] : lines) text += format_catalog_line(line);
  const bool is_written =
      write_text(ops_, fd->get(), text).ok() &&
      ops_.rename(owner.at(kStagedName), owner.directory().at(kCatalogName)).ok();
  if (!is_written) {
    owner.discard(kStagedName);
    return;
  }
  fd_ = *std::move(fd);
  size_bytes_ = text.size();
}

void CatalogWriter::add(const CatalogLine& line) {
  if (!fd_) return;
  const std::string text = format_catalog_line(line);
  if (write_exactly(ops_, fd_.get(), size_bytes_, std::as_bytes(std::span(text))).ok())
    size_bytes_ += text.size();
  else
    fd_ = UniqueFd();
}

}  // namespace stoker
