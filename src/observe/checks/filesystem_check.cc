#include <fmt/format.h>

#include "base/shell_quote.h"
#include "observe/checks.h"
#include "observe/text_fields.h"

namespace stoker {
namespace {

struct Verdict {
  Severity severity = Severity::ok;
  std::string why;
  std::string fix;
};

Verdict judge(const Target& target) {
  using enum FilesystemType;
  const std::string path = shell_quote(target.path);
  const std::string move = fmt::format("cp -a {} /path/on/a/disk/   # then use that", path);
  switch (target.kind) {
    case tmpfs:
      if (!target.for_checkpoints())
        return {Severity::note, "The data is gone after a reboot and takes memory from training.",
                move};
      return {
          Severity::problem,
          "Checkpoints here live in memory: a crash, a reboot or the end of the job loses them.",
          move};
    case overlay:
      return {Severity::warning,
              target.for_checkpoints()
                  ? "This is a container's own layer: checkpoints in it are deleted with the "
                    "container."
                  : "This is a container's own layer: each file is copied up at its first change, "
                    "and all files are deleted with the container.",
              "docker run -v /host/path:/data   # and use /data"};
    case object_fuse:
      if (!target.for_checkpoints())
        return {Severity::note, "Each random read of a small range costs a request.",
                fmt::format("stoker pack {0} /local/shards   # large shards, read in order", path)};
      return {
          target.role == Role::checkpoint ? Severity::problem : Severity::warning,
          "A checkpoint is committed by a rename, which is not atomic here: a crash can leave "
          "half of one that looks whole.",
          "stoker doctor --role checkpoint /another/path   # write there, and copy to the store "
          "afterwards"};
    case fuse:
      return {
          Severity::warning,
          "Whether a committed checkpoint survives depends on an unknown daemon, and every request "
          "passes through it.",
          fmt::format("findmnt -T {}   # ask its manual about fsync, rename and O_DIRECT", path)};
    case unknown:
      return {Severity::note, "It is not known what rename and fsync guarantee here.",
              fmt::format("stat -f {} && findmnt -T {}", path, path)};
    default: return {};
  }
}

}  // namespace

Findings check_filesystem(Machine& /*machine*/, const Target& target) {
  const FilesystemTraits& traits = filesystem_traits(target.kind);
  const MountEntry& mount = target.mount;
  const std::string type = mount.type.empty() ? "?" : mount.type;
  const std::string name = target.kind == FilesystemType::unknown
                               ? fmt::format("{} (magic 0x{:x})", type, target.volume.type_magic)
                               : fmt::format("{}, type {}", traits.name, type);
  Verdict verdict = judge(target);
  return {
      {.severity = verdict.severity,
       .subject = target.subject("filesystem"),
       .seen = fmt::format("{} from {} at {}. rename: {}; fsync: {}; O_DIRECT: {}; hard links: {}",
                           name, mount.source.empty() ? "?" : mount.source,
                           mount.mount_point.empty() ? "?" : mount.mount_point, traits.rename,
                           traits.fsync, traits.direct, traits.hard_links),
       .why = std::move(verdict.why),
       .fix = std::move(verdict.fix)}};
}

}  // namespace stoker
