#include <fmt/format.h>

#include "observe/checks.h"
#include "observe/text_fields.h"
#include "stoker/units.h"

namespace stoker {
namespace {

constexpr std::uint64_t kLockedMin = std::uint64_t{1} << 30;
constexpr std::uint64_t kOpenFilesMin = 16384;
constexpr std::uint64_t kOpenFilesWanted = 65536;

/// Returns the command that raises a limit: in this shell if the hard limit allows it, otherwise
/// permanently.
std::string raise(const ResourceLimit& limit, std::uint64_t wanted, std::string_view flag,
                  std::string_view value, std::string_view item) {
  if (limit.hard >= wanted) return fmt::format("ulimit -{} {}", flag, value);
  return fmt::format(
      "echo '* - {0} {1}' > /etc/security/limits.d/90-stoker-{0}.conf   # then log in again; "
      "container: docker run --ulimit {0}={2}",
      item, value, value == "unlimited" ? "-1" : value);
}

}  // namespace

Findings check_locked_memory(Machine& machine) {
  const std::string subject = "locked memory";
  const ResourceLimit limit = machine.limit(Resource::locked_memory);
  if (limit.soft == ResourceLimit::kUnlimited)
    return {{.subject = subject, .seen = "no limit on locked memory"}};
  const std::string seen = fmt::format("RLIMIT_MEMLOCK is {}", format_bytes(limit.soft));
  if (machine.is_root())  // CAP_IPC_LOCK: the limit is not enforced
    return {{.subject = subject, .seen = seen + ", which does not bind root"}};
  if (limit.soft >= kLockedMin) return {{.subject = subject, .seen = seen}};
  return {{.severity = Severity::warning,
           .subject = subject,
           .seen = seen,
           .why = "I/O buffers cannot be registered with io_uring (ENOMEM), so every transfer pins "
                  "its pages again; RDMA needs the same limit.",
           .fix = raise(limit, ResourceLimit::kUnlimited, "l", "unlimited", "memlock")}};
}

Findings check_open_files(Machine& machine) {
  const std::string subject = "open files";
  const ResourceLimit limit = machine.limit(Resource::open_files);
  const std::string seen = limit.soft == ResourceLimit::kUnlimited
                               ? "no limit on open files"
                               : fmt::format("RLIMIT_NOFILE is {}", limit.soft);
  if (limit.soft >= kOpenFilesMin) return {{.subject = subject, .seen = seen}};
  return {{.severity = Severity::warning,
           .subject = subject,
           .seen = seen,
           .why = "A loader keeps at most a quarter of these open; with more shards than that it "
                  "reopens them repeatedly. Worker processes and sockets need the others, and "
                  "fail with EMFILE.",
           .fix = raise(limit, kOpenFilesWanted, "n", std::to_string(kOpenFilesWanted), "nofile")}};
}

}  // namespace stoker
