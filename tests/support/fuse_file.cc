#include "support/fuse_file.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/unique_fd.h"

namespace stoker::testing {
namespace {

constexpr std::uint32_t kBlockBytes = 4096;
constexpr std::uint32_t kWriteBytesMax = 1 << 20;

/// Answers requests until the filesystem is unmounted.
class Server {
 public:
  Server(int fd, DiskTape& tape) : fd_(fd), tape_(tape), buffer_(kWriteBytesMax + kBlockBytes) {}

  int run() {
    for (;;) {
      const ssize_t size = ::read(fd_, buffer_.data(), buffer_.size());
      if (size < 0 && errno == ENODEV) return 0;
      if (size < 0 && errno != EINTR && errno != EAGAIN && errno != ENOENT) return 1;
      if (size >= static_cast<ssize_t>(sizeof(fuse_in_header))) answer();
    }
  }

 private:
  template <typename T>
  T argument(std::size_t at = sizeof(fuse_in_header)) const {
    T value;
    std::memcpy(&value, buffer_.data() + at, sizeof(value));
    return value;
  }

  void reply(int error, std::span<const std::byte> body = {}) {
    fuse_out_header header{};
    header.len = static_cast<std::uint32_t>(sizeof(header) + body.size());
    header.error = -error;
    header.unique = argument<fuse_in_header>(0).unique;
    const iovec pieces[] = {{&header, sizeof(header)},
                            {const_cast<std::byte*>(body.data()), body.size()}};
    // ENOENT: whoever asked has gone. There is nobody to be told of anything else.
    [[maybe_unused]] const ssize_t sent = ::writev(fd_, pieces, body.empty() ? 1 : 2);
  }
  template <typename T>
  void reply_with(const T& body) {
    reply(0, std::as_bytes(std::span(&body, 1)));
  }

  void answer() {
    switch (argument<fuse_in_header>(0).opcode) {
      case FUSE_INIT: return reply_init();
      case FUSE_GETATTR: return reply_attributes();
      case FUSE_STATFS: return reply_space();
      case FUSE_OPEN: {
        fuse_open_out opened{};
        opened.open_flags = FOPEN_DIRECT_IO;  // nothing stays in the page cache of this file
        return reply_with(opened);
      }
      case FUSE_READ: {
        const auto asked = argument<fuse_read_in>();
        const std::uint64_t from = std::min<std::uint64_t>(asked.offset, tape_.size_bytes());
        const std::uint64_t left = tape_.size_bytes() - from;
        return reply(0, tape_.image().subspan(from, std::min<std::uint64_t>(asked.size, left)));
      }
      case FUSE_WRITE: {
        const auto asked = argument<fuse_write_in>();
        constexpr std::size_t kDataAt = sizeof(fuse_in_header) + sizeof(fuse_write_in);
        const int error =
            tape_.write(asked.offset, std::span(buffer_).subspan(kDataAt, asked.size));
        fuse_write_out written{};
        written.size = asked.size;
        return error != 0 ? reply(error) : reply_with(written);
      }
      case FUSE_FSYNC: return reply(tape_.flush());
      case FUSE_RELEASE:
      case FUSE_FLUSH: return reply(0);  // of close(2): no barrier
      case FUSE_FORGET:
      case FUSE_BATCH_FORGET:
      case FUSE_INTERRUPT: return;  // want no answer
      default: return reply(ENOSYS);
    }
  }

  void reply_init() {
    const auto offered = argument<fuse_init_in>();
    fuse_init_out taken{};
    taken.major = FUSE_KERNEL_VERSION;
    taken.minor = std::min<std::uint32_t>(offered.minor, FUSE_KERNEL_MINOR_VERSION);
    taken.max_readahead = offered.max_readahead;
    taken.flags = offered.flags & (FUSE_BIG_WRITES | FUSE_MAX_PAGES);
    taken.max_background = 64;
    taken.congestion_threshold = 48;
    taken.max_write = kWriteBytesMax;
    taken.max_pages = kWriteBytesMax / kBlockBytes;
    taken.time_gran = 1;
    reply_with(taken);
  }

  void reply_attributes() {
    fuse_attr_out out{};
    out.attr_valid = 3600;
    out.attr.ino = FUSE_ROOT_ID;
    out.attr.size = tape_.size_bytes();
    out.attr.blocks = tape_.size_bytes() / 512;
    out.attr.mode = S_IFREG | 0600;
    out.attr.nlink = 1;
    out.attr.blksize = kBlockBytes;
    reply_with(out);
  }

  void reply_space() {
    fuse_statfs_out out{};
    out.st.bsize = out.st.frsize = kBlockBytes;
    out.st.blocks = tape_.size_bytes() / kBlockBytes;
    out.st.namelen = 255;
    reply_with(out);
  }

  int fd_;
  DiskTape& tape_;
  std::vector<std::byte> buffer_;
};

}  // namespace

FuseFile::FuseFile(std::string path, DiskTape& tape) : path_(std::move(path)) {
  const UniqueFd device(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (!device) {
    status_ = Status(Code::unsupported, "/dev/fuse cannot be opened");
    return;
  }
  const std::string options =
      "fd=" + std::to_string(device.get()) + ",rootmode=100000,user_id=0,group_id=0";
  if (::mount("stoker-tape", path_.c_str(), "fuse", MS_NOSUID | MS_NODEV, options.c_str()) != 0) {
    status_ = Status(Code::unsupported, "FUSE cannot be mounted here");
    return;
  }
  server_ = ::fork();
  if (server_ != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Mounts of its own, without this one and what will be mounted on it: whoever dies last in a
  // mount namespace unmounts what is there, and the server would wait for itself to write the last
  // blocks.
  if (::unshare(CLONE_NEWNS) != 0) ::_exit(1);
  ::umount2(path_.c_str(), MNT_DETACH);
  ::_exit(Server(device.get(), tape).run());
}

FuseFile::~FuseFile() {
  if (server_ < 0) return;
  ::umount2(path_.c_str(), MNT_DETACH);
  ::kill(server_, SIGKILL);  // it has nothing to lose, and may still have users to wait for
  ::waitpid(server_, nullptr, 0);
}

}  // namespace stoker::testing
