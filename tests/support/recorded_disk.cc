#include "support/recorded_disk.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sched.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

extern char** environ;

namespace stoker::testing {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::size_t kLoadBytes = 64 << 10;

Status run_tool(std::vector<std::string> command) {
  std::vector<char*> args;
  args.reserve(command.size() + 1);
  for (std::string& word : command) args.push_back(word.data());
  args.push_back(nullptr);
  posix_spawn_file_actions_t quiet;  // one of them says more than it was asked
  ::posix_spawn_file_actions_init(&quiet);
  ::posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = -1;
  const int error = ::posix_spawnp(&child, args[0], &quiet, nullptr, args.data(), environ);
  ::posix_spawn_file_actions_destroy(&quiet);
  if (error != 0) return {Code::unsupported, command[0] + " is not installed"};
  int status = -1;
  ::waitpid(child, &status, 0);
  if (status != 0) return {Code::io_error, command[0] + " failed"};
  return {};
}

/// Puts what is not zero on the disk.
Status load(const std::string& image, DiskTape& tape) {
  const UniqueFd fd(::open(image.c_str(), O_RDONLY | O_CLOEXEC));
  std::vector<std::byte> block(kLoadBytes);
  off_t end = 0;
  for (off_t at = ::lseek(fd.get(), 0, SEEK_DATA); at >= 0;
       at = ::lseek(fd.get(), end, SEEK_DATA)) {
    end = ::lseek(fd.get(), at, SEEK_HOLE);
    while (at < end) {
      const auto wanted = std::min(kLoadBytes, static_cast<std::size_t>(end - at));
      const ssize_t size = ::pread(fd.get(), block.data(), wanted, at);
      if (size <= 0) return Status::from_errno(errno, "read", image);
      const std::span<const std::byte> data =
          std::span(block).first(static_cast<std::size_t>(size));
      if (std::ranges::any_of(data, [](std::byte value) { return value != std::byte{0}; }))
        tape.settle(static_cast<std::uint64_t>(at), data);
      at += size;
    }
  }
  return {};
}

}  // namespace

FilesystemKind FilesystemKind::ext4(std::uint64_t size_bytes) {
  return {.name = "ext4",
          .size_bytes = size_bytes,
          .mkfs = {"mkfs.ext4", "-q", "-F", "-b", "4096", "-m", "0", "-J", "size=4", "-E",
                   "lazy_itable_init=0,lazy_journal_init=0,nodiscard"}};
}

FilesystemKind FilesystemKind::xfs() {  // its tools refuse less than 300 MB
  return {.name = "xfs", .size_bytes = 300 * kMiB, .mkfs = {"mkfs.xfs", "-q", "-K"}};
}

FilesystemKind FilesystemKind::btrfs() {
  return {.name = "btrfs", .size_bytes = 128 * kMiB, .mkfs = {"mkfs.btrfs", "-q", "-K"}};
}

Status enter_private_mounts() {
  static const bool is_private = ::geteuid() == 0 && ::unshare(CLONE_NEWNS) == 0 &&
                                 ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
  if (!is_private) return {Code::unsupported, "only root can mount"};
  return {};
}

Result<std::unique_ptr<RecordedDisk>> RecordedDisk::make(const FilesystemKind& kind) {
  STOKER_TRY(enter_private_mounts());
  std::unique_ptr<RecordedDisk> disk(new RecordedDisk(kind));
  STOKER_TRY(disk->format());
  STOKER_TRY(disk->attach());
  STOKER_TRY(disk->mount());
  STOKER_TRY(disk->unmount());
  disk->tape_.undo();
  return disk;
}

RecordedDisk::RecordedDisk(const FilesystemKind& kind) : kind_(kind), tape_(kind.size_bytes) {}

RecordedDisk::~RecordedDisk() {
  static_cast<void>(unmount());
}

Status RecordedDisk::format() {
  const std::string image = dir_.file("image");
  {
    const UniqueFd fd(::open(image.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (::ftruncate(fd.get(), static_cast<off_t>(kind_.size_bytes)) != 0)
      return Status::from_errno(errno, "truncate", image);
  }
  std::vector<std::string> command = kind_.mkfs;
  command.push_back(image);
  STOKER_TRY(run_tool(std::move(command)));
  STOKER_TRY(load(image, tape_));
  ::unlink(image.c_str());
  return {};
}

Status RecordedDisk::attach() {
  const std::string path = dir_.file("disk");
  if (!UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) ||
      ::mkdir(mount_point().c_str(), 0700) != 0)
    return Status::from_errno(errno, "create", path);
  served_ = std::make_unique<FuseFile>(path, tape_);
  STOKER_TRY(served_->status());
  const UniqueFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file) return Status::from_errno(errno, "open", path);
  // Direct, so that no page cache stands between the filesystem and the tape.
  device_ = LoopDevice(file.get(), LO_FLAGS_DIRECT_IO);
  if (!device_.is_there()) return {Code::unsupported, "no loop devices here"};
  return {};
}

Status RecordedDisk::mount() {
  if (::mount(device_.name().c_str(), mount_point().c_str(), kind_.name.c_str(), 0, nullptr) != 0) {
    if (errno == ENODEV) return {Code::unsupported, "this kernel has no " + kind_.name};
    if (errno == EPERM) return {Code::unsupported, "not even root can mount here"};
    return Status::from_errno(errno, "mount", kind_.name);
  }
  is_mounted_ = true;
  return {};
}

Status RecordedDisk::unmount() {
  if (!is_mounted_) return {};
  // The kernel closes the files of an io_uring a little after the ring.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (::umount2(mount_point().c_str(), 0) != 0) {
    if (errno != EBUSY || std::chrono::steady_clock::now() > deadline)
      return Status::from_errno(errno, "unmount", kind_.name);
    std::this_thread::yield();
  }
  is_mounted_ = false;
  if (::ioctl(device_.fd(), BLKFLSBUF, 0) != 0)
    return Status::from_errno(errno, "BLKFLSBUF", device_.name());
  return {};
}

Status RecordedDisk::stop_recording() {
  device_ = LoopDevice(tape_.image_fd());
  if (!device_.is_there()) return {Code::unsupported, "no loop devices here"};
  served_.reset();
  return {};
}

}  // namespace stoker::testing
