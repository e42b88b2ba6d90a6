#include "store/credentials/aws_profile.h"

#include "io/files/file_ops.h"
#include "io/files/text_file.h"

namespace stoker {
namespace {

Result<IniFile> read_ini(const std::string& path) {
  constexpr std::size_t kBytesMax = std::size_t{1} << 20;
  if (path.empty()) return IniFile();
  const Result<std::string> text = read_text_file(posix_file_ops(), path, kBytesMax);
  if (text.status().code() == Code::not_found) return IniFile();
  if (!text.ok()) return text.status();
  Result<IniFile> file = parse_ini(*text);
  if (!file.ok()) return file.status().with_context(path);
  return file;
}

}  // namespace

Result<std::optional<IniSection>> read_profile(const std::string& credentials_file,
                                               const std::string& config_file,
                                               const std::string& profile) {
  STOKER_ASSIGN(IniFile credentials, read_ini(credentials_file));
  STOKER_ASSIGN(const IniFile config, read_ini(config_file));
  std::optional<IniSection> settings;
  if (const auto found = credentials.find(profile); found != credentials.end())
    settings = found->second;
  const std::string section = profile == "default" ? profile : "profile " + profile;
  if (const auto found = config.find(section); found != config.end()) {
    if (!settings) settings.emplace();
    settings->insert(found->second.begin(), found->second.end());
  }
  return settings;
}

}  // namespace stoker
