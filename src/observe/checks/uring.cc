#include "observe/checks.h"
#include "observe/text_fields.h"

namespace stoker {
namespace {

/// Returns the fix for the cause: the sysctl, a container's seccomp filter, or an old kernel.
std::string fix_for(Machine& machine) {
  if (find_count(machine, "/proc/sys/kernel/io_uring_disabled").value_or(0) != 0)
    return "sysctl -w kernel.io_uring_disabled=0 && echo kernel.io_uring_disabled=0 > "
           "/etc/sysctl.d/91-stoker.conf";
  const Result<std::string> status = machine.read_text("/proc/self/status");
  if (status.ok() && find_field(*status, "Seccomp:").value_or("0") == "2")
    return "docker run --security-opt seccomp=unconfined   # or a profile that allows "
           "io_uring_setup, io_uring_enter and io_uring_register";
  return "uname -r   # io_uring needs Linux 5.11 or newer with CONFIG_IO_URING";
}

}  // namespace

Findings check_uring(Machine& machine) {
  const std::string subject = "io_uring";
  UringState state = machine.uring();
  if (state.reason.starts_with("io_uring: ")) state.reason.erase(0, 10);  // repeats the subject
  if (state.works) return {{.subject = subject, .seen = state.reason}};
  return {{.severity = Severity::warning,
           .subject = subject,
           .seen = "not usable: " + state.reason,
           .why = "Reads and writes go through a pool of threads, which costs more processor time "
                  "per request and reaches fewer small random reads per second.",
           .fix = fix_for(machine)}};
}

}  // namespace stoker
