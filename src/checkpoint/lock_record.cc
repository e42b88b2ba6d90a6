#include "checkpoint/lock_record.h"

#include <sys/utsname.h>

#include <array>
#include <cstddef>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <span>

#include "base/hex.h"

namespace stoker {
namespace {

constexpr std::size_t kRecordBytes = 1024;
constexpr std::size_t kNameBytesMax = 256;  // of a token or host: both fit, whatever they hold

}  // namespace

std::string LockRecord::who() const {
  return "pid " + std::to_string(pid) + " on " + host;
}

std::string format_lock_record(const LockRecord& record) {
  const nlohmann::json json = {{"token", record.token.substr(0, kNameBytesMax)},
                               {"host", record.host.substr(0, kNameBytesMax)},
                               {"pid", record.pid},
                               {"time_s", record.time_s},
                               {"beat", record.beat}};
  std::string text = json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  text.resize(kRecordBytes - 1, ' ');
  return text + "\n";
}

std::optional<LockRecord> parse_lock_record(std::string_view text) {
  // A thousand bytes cannot nest deeply enough to hurt the parser.
  if (text.size() > kRecordBytes) return std::nullopt;
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  const auto has = [&](const char* key, auto is_right) {
    const auto found = json.find(key);
    return found != json.end() && is_right(*found);
  };
  const auto is_string = [](const nlohmann::json& value) { return value.is_string(); };
  const auto is_number = [](const nlohmann::json& value) { return value.is_number(); };
  const auto is_count = [](const nlohmann::json& value) { return value.is_number_integer(); };
  if (!has("token", is_string) || !has("host", is_string) || !has("pid", is_count) ||
      !has("time_s", is_number) || !has("beat", is_count))
    return std::nullopt;
  return LockRecord{.token = json["token"].get<std::string>(),
                    .host = json["host"].get<std::string>(),
                    .pid = json["pid"].get<std::int64_t>(),
                    .time_s = json["time_s"].get<double>(),
                    .beat = json["beat"].get<std::uint64_t>()};
}

std::string host_name() {
  utsname name{};
  std::string host = ::uname(&name) == 0 ? name.nodename : "unknown";
  // Containers often share a name, and a machine keeps its name over a reboot.
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  std::string id;
  if (boot >> id) host.append("/").append(id, 0, 8);
  return host;
}

std::string make_token() {
  std::random_device random;
  std::array<unsigned, 4> words{};
  for (unsigned& word : words) word = random();
  return format_hex(std::as_bytes(std::span(words)));
}

}  // namespace stoker
