// What the conformance suite cannot arrange for every engine: full disks, forbidden system calls,
// transfers that do not end, ordinary users.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <latch>
#include <vector>

#include "base/unique_fd.h"
#include "io/engine/buffer_pool.h"
#include "io/engine/engine.h"
#include "support/in_child.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using testing::ChildEnd;
using testing::in_child;
using testing::in_child_as_nobody;
using testing::kNotRoot;

/// Makes io_uring_setup answer `error` in this process from now on, as a container's profile does.
bool forbid_io_uring(int error) {
  std::array<sock_filter, 4> rules = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{.len = rules.size(), .filter = rules.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(ProbeEngineTest, chooses_threads_and_says_why_where_io_uring_is_forbidden) {
  for (const int error : {EPERM, ENOSYS}) {
    const ChildEnd end = in_child([error] {
      if (!forbid_io_uring(error)) return kNotRoot;
      const EngineChoice choice = probe_engine();
      if (choice.kind != EngineKind::threads) return 1;
      const char* why = error == EPERM ? "seccomp" : "built without it";
      if (choice.reason.find(why) == std::string::npos) return 2;
      const auto engine = make_engine(EngineKind::automatic, {.depth = 1});
      if (!engine.ok() || (*engine)->caps().kind != EngineKind::threads) return 3;
      if (make_engine(EngineKind::uring, {.depth = 1}).ok()) return 4;
      return 0;
    });
    if (end.exit_code == kNotRoot) GTEST_SKIP() << "seccomp filters are not allowed here";
    EXPECT_EQ(end.exit_code, 0) << "errno " << error;
  }
}

TEST(ProbeEngineTest, reports_a_reason_for_its_choice) {
  const EngineChoice choice = probe_engine();
  EXPECT_NE(choice.kind, EngineKind::automatic);
  EXPECT_FALSE(choice.reason.empty());
}

TEST(ProbeEngineTest, names_parse_back_to_their_kinds) {
  for (const EngineKind kind :
       {EngineKind::automatic, EngineKind::uring, EngineKind::threads, EngineKind::sync})
    EXPECT_EQ(*parse_engine_kind(engine_kind_name(kind)), kind);
  const auto unknown = parse_engine_kind("libaio");
  EXPECT_EQ(unknown.status().code(), Code::invalid_argument);
  EXPECT_NE(unknown.status().message().find("auto, uring, threads or sync"), std::string::npos);
}

TEST(EngineMemlockTest, ordinary_users_go_on_without_registered_buffers) {
  const ChildEnd end = in_child_as_nobody([] {
    const auto engine = make_uring_engine({.depth = 4});
    if (!engine.ok()) return kNotRoot;
    const auto pool = BufferPool::make({.budget_bytes = 8 << 20});
    if (!pool.ok()) return 1;
    if ((*engine)->register_buffers(pool->memory()).code() != Code::unavailable) return 2;
    if ((*engine)->caps().registered_buffers) return 3;
    const UniqueFd file(::memfd_create("data", MFD_CLOEXEC));
    const auto written = perform(
        **engine, {.op = Op::write, .fd = file.get(), .buffer = pool->memory().first(4096)});
    return written.ok() && *written == 4096 ? 0 : 4;
  });
  if (end.exit_code == kNotRoot) GTEST_SKIP() << "needs root to become nobody, and io_uring";
  EXPECT_EQ(end.exit_code, 0);
}

/// A tmpfs of one megabyte for the length of a test.
class SmallDisk {
 public:
  SmallDisk() : mounted_(::mount("none", dir_.path().c_str(), "tmpfs", 0, "size=1m") == 0) {}
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  ~SmallDisk() {
    if (mounted_) ::umount2(dir_.path().c_str(), MNT_DETACH);
  }
  bool mounted() const { return mounted_; }
  std::string file(const std::string& name) const { return dir_.file(name); }

 private:
  testing::TempDir dir_;
  bool mounted_;
};

TEST(EngineFullDiskTest, a_short_write_on_a_full_disk_ends_in_no_space) {
  const SmallDisk disk;
  if (!disk.mounted()) GTEST_SKIP() << "mounting a tmpfs needs root";
  for (const EngineKind kind : {EngineKind::uring, EngineKind::threads, EngineKind::sync}) {
    const auto engine = make_engine(kind, {.depth = 1});
    if (!engine.ok()) continue;
    const UniqueFd fd(::open(disk.file("data").c_str(), O_RDWR | O_CREAT | O_TRUNC, 0644));
    std::vector<std::byte> data(4 << 20);
    const auto written = perform(**engine, {.op = Op::write, .fd = fd.get(), .buffer = data});
    EXPECT_EQ(written.status().code(), Code::no_space) << engine_kind_name(kind);
  }
}

/// A read that does not end: an empty pipe through io_uring.
class EndlessRead : public ::testing::Test {
 protected:
  void SetUp() override {
    auto engine = make_uring_engine({.depth = 4});
    if (!engine.ok()) GTEST_SKIP() << engine.status().message();
    engine_ = *std::move(engine);
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    reader_ = UniqueFd(ends[0]);
    writer_ = UniqueFd(ends[1]);
    const Request request{.fd = reader_.get(), .buffer = buffer_, .tag = 9};
    ASSERT_EQ(*engine_->submit({&request, 1}), 1U);
  }

  UniqueFd reader_;
  UniqueFd writer_;
  std::array<std::byte, 8> buffer_{};
  std::unique_ptr<Engine> engine_;  // last: its destructor waits for the read
};

TEST_F(EndlessRead, a_wait_ends_at_its_deadline) {
  std::array<Completion, 1> out;
  EXPECT_EQ(*engine_->reap(out, 1, std::chrono::milliseconds(1)), 0U);
  EXPECT_EQ(engine_->drain(std::chrono::milliseconds(1)).code(), Code::unavailable);
  EXPECT_EQ(engine_->in_flight(), 1U);
  writer_ = UniqueFd();  // end of file: the destructor can finish
}

TEST_F(EndlessRead, cancelling_stops_it) {
  EXPECT_TRUE(engine_->cancel(9).ok());
  std::array<Completion, 1> out;
  ASSERT_EQ(*engine_->reap(out, 1, std::chrono::seconds(60)), 1U);
  EXPECT_EQ(out[0].tag, 9U);
  EXPECT_EQ(out[0].result, -ECANCELED);
}

TEST(ThreadsEngineTest, a_queued_request_is_cancelled_before_it_starts) {
  std::latch started(1);
  std::latch may_end(1);
  const auto engine = make_threads_engine(
      {.depth = 2, .thread_count = 1, .tamper = [&](const Request& request, std::int64_t raw) {
         if (request.tag == 1) {
           started.count_down();
           may_end.wait();
         }
         return raw;
       }});
  ASSERT_TRUE(engine.ok());
  const UniqueFd file(::memfd_create("data", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(file.get(), 4096), 0);
  std::array<std::byte, 16> a{};
  std::array<std::byte, 16> b{};
  const std::array requests = {Request{.fd = file.get(), .buffer = a, .tag = 1},
                               Request{.fd = file.get(), .buffer = b, .tag = 2}};
  ASSERT_EQ(*(*engine)->submit(requests), 2U);
  started.wait();
  std::array<Completion, 2> out;
  EXPECT_EQ(*(*engine)->reap(out, 1, std::chrono::milliseconds(1)), 0U) << "a deadline is kept";
  EXPECT_EQ((*engine)->drain(std::chrono::milliseconds(1)).code(), Code::unavailable);
  EXPECT_TRUE((*engine)->cancel(2).ok());
  may_end.count_down();
  ASSERT_EQ(*(*engine)->reap(out, 2, std::chrono::seconds(60)), 2U);
  EXPECT_EQ(out[0].result, 16);
  EXPECT_EQ(out[1].result, -ECANCELED);
}

}  // namespace
}  // namespace stoker
