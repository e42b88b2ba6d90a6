#include "checkpoint/directory/lock_record.h"

#include <sys/utsname.h>

#include <cstddef>
#include <fstream>

#include "formats/json/strict_json.h"

namespace stoker {
namespace {

constexpr std::size_t kTextBytesMax = 64;  // of each text: all fit, even if every byte is escaped

std::string who_text(std::int64_t pid, const std::string& host, const std::string& job) {
  const std::string text = "pid " + std::to_string(pid) + " on " + host;
  return text_for_people(job.empty() ? text : text + " (job " + job + ")");
}

/// Reads the members of a record; is_good() is false once one was missing or of the wrong type.
class Members {
 public:
  explicit Members(std::string_view text) {
    Result<Json> parsed = parse_strict_json(text, "lock", {.text_bytes_max = kLockRecordBytes});
    if (parsed.ok()) json_ = *std::move(parsed);
    is_good_ = json_.is_object();
  }

  std::string text(const char* key) {
    const Json* value = find(key);
    is_good_ = is_good_ && value != nullptr && value->is_string();
    return is_good_ ? value->get_string() : std::string();
  }
  std::uint64_t count(const char* key) {
    const Json* value = find(key);
    is_good_ = is_good_ && value != nullptr && value->is_number_unsigned();
    return is_good_ ? value->get_uint64() : 0;
  }
  std::int64_t integer(const char* key) {
    const Json* value = find(key);
    is_good_ = is_good_ && value != nullptr && value->is_number_integer();
    return is_good_ ? value->get_int64() : 0;
  }
  double number(const char* key) {
    const Json* value = find(key);
    is_good_ = is_good_ && value != nullptr && value->is_number();
    return is_good_ ? value->get_double() : 0;
  }
  bool flag(const char* key) {
    const Json* value = find(key);
    is_good_ = is_good_ && value != nullptr && value->is_boolean();
    return is_good_ && value->get_bool();
  }
  bool is_good() const { return is_good_; }

 private:
  const Json* find(const char* key) const { return is_good_ ? json_.find(key) : nullptr; }

  Json json_;
  bool is_good_ = false;
};

}  // namespace

std::string this_host() {
  utsname name{};
  return ::uname(&name) == 0 ? name.nodename : "unknown";
}

Machine this_machine() {
  Machine machine;
  machine.host = this_host();
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  boot >> machine.boot_id;
  return machine;
}

std::string text_for_people(std::string text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    // Control characters above 0x7f are two bytes in UTF-8, the first of which is 0xc2.
    const bool is_upper =
        byte >= 0x80 && byte < 0xa0 && i > 0 && static_cast<unsigned char>(text[i - 1]) == 0xc2;
    if (byte < 0x20 || byte == 0x7f) text[i] = '?';
    if (is_upper) text.replace(i - 1, 2, "??");
  }
  return text;
}

std::string LockRecord::who() const {
  return who_text(pid, machine.host, job);
}

std::string OldLockRecord::who() const {
  return who_text(pid, host, "");
}

std::string format_lock_record(const LockRecord& record) {
  const Json text = {{"token", record.token.substr(0, kTextBytesMax)},
                     {"host", record.machine.host.substr(0, kTextBytesMax)},
                     {"boot_id", record.machine.boot_id.substr(0, kTextBytesMax)},
                     {"device", record.device},
                     {"pid", record.pid},
                     {"job", record.job.substr(0, kTextBytesMax)},
                     {"beat", record.beat},
                     {"released", record.is_released}};
  std::string line = text.dump({.is_ascii = true, .is_sorted = true});
  line.resize(kLockRecordBytes - 1, ' ');
  return line + "\n";
}

std::optional<LockRecord> parse_lock_record(std::string_view text) {
  Members members(text);
  LockRecord record{.token = members.text("token"),
                    .machine = {.host = members.text("host"), .boot_id = members.text("boot_id")},
                    .device = members.count("device"),
                    .pid = members.integer("pid"),
                    .job = members.text("job"),
                    .beat = members.count("beat"),
                    .is_released = members.flag("released")};
  if (!members.is_good()) return std::nullopt;
  return record;
}

std::optional<OldLockRecord> parse_old_lock_record(std::string_view text) {
  Members members(text);
  static_cast<void>(members.text("token"));
  OldLockRecord record{.host = members.text("host"),
                       .pid = members.integer("pid"),
                       .time_s = members.number("time_s"),
                       .beat = members.count("beat")};
  if (!members.is_good()) return std::nullopt;
  return record;
}

std::string old_host_name(const Machine& machine) {
  constexpr std::size_t kBootChars = 8;
  return machine.boot_id.empty() ? machine.host
                                 : machine.host + "/" + machine.boot_id.substr(0, kBootChars);
}

}  // namespace stoker
