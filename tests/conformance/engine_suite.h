#pragma once

// What every Engine must do. An implementation is done when it passes this suite:
//
//   INSTANTIATE_TEST_SUITE_P(mine, EngineSuite, ::testing::Values(EngineMaker{"mine", make_mine}),
//                            engine_maker_name);

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "io/engine/arena.h"
#include "io/engine/engine.h"
#include "support/in_child.h"
#include "support/temp_dir.h"

namespace stoker::testing {

struct EngineMaker {
  const char* name;
  Result<std::unique_ptr<Engine>> (*make)(const EngineOptions& options);
};

inline std::string engine_maker_name(const ::testing::TestParamInfo<EngineMaker>& info) {
  return info.param.name;
}
inline std::ostream& operator<<(std::ostream& out, const EngineMaker& maker) {
  return out << maker.name;
}

class EngineSuite : public ::testing::TestWithParam<EngineMaker> {
 protected:
  static constexpr std::uint32_t kDepth = 16;
  static constexpr nanoseconds kPatience = std::chrono::seconds(60);

  void SetUp() override {
    Result<std::unique_ptr<Engine>> probe = GetParam().make({.depth = 1});
    if (!probe.ok()) GTEST_SKIP() << GetParam().name << ": " << probe.status().message();
  }

  std::unique_ptr<Engine> make(EngineOptions options = {.depth = kDepth}) const {
    Result<std::unique_ptr<Engine>> engine = GetParam().make(options);
    EXPECT_TRUE(engine.ok()) << engine.status().message();
    return engine.ok() ? *std::move(engine) : nullptr;
  }

  UniqueFd open_file(const std::string& name, int flags = O_RDWR | O_CREAT) const {
    UniqueFd fd(::open(dir_.file(name).c_str(), flags | O_CLOEXEC, 0644));
    EXPECT_TRUE(fd) << name << ": " << std::strerror(errno);
    return fd;
  }
  /// A file of `size` reproducible random bytes.
  UniqueFd file_with(const std::string& name, std::size_t size,
                     std::vector<std::byte>* copy) const {
    std::mt19937_64 random(7);
    std::vector<std::byte> data(size);
    for (std::byte& byte : data) byte = static_cast<std::byte>(random());
    UniqueFd fd = open_file(name);
    EXPECT_EQ(::pwrite(fd.get(), data.data(), size, 0), static_cast<ssize_t>(size));
    if (copy != nullptr) *copy = std::move(data);
    return fd;
  }

  /// Submits everything, reaping when the queue is full, and returns the results by tag. Fails the
  /// test if a tag completes twice or not at all.
  static std::map<std::uint64_t, std::int64_t> run(Engine& engine,
                                                   std::span<const Request> requests) {
    std::map<std::uint64_t, std::int64_t> results;
    std::array<Completion, 8> out;
    while (!requests.empty() || engine.in_flight() > 0) {
      const Result<std::size_t> accepted = engine.submit(requests);
      if (!accepted.ok()) {
        ADD_FAILURE() << accepted.status().message();
        return results;
      }
      requests = requests.subspan(*accepted);
      const Result<std::size_t> count = engine.reap(out, 1, kPatience);
      if (!count.ok() || *count == 0) {
        ADD_FAILURE() << (count.ok() ? "nothing completed" : count.status().message());
        return results;
      }
      for (const Completion& completion : std::span(out).first(*count)) {
        EXPECT_TRUE(results.emplace(completion.tag, completion.result).second)
            << "tag " << completion.tag << " completed twice";
      }
    }
    return results;
  }
  static std::int64_t run_one(Engine& engine, const Request& request) {
    const auto results = run(engine, {&request, 1});
    return results.contains(request.tag) ? results.at(request.tag) : -EPROTO;
  }

  TempDir dir_;
};

TEST_P(EngineSuite, random_reads_bring_the_bytes_that_are_there) {
  std::vector<std::byte> data;
  const UniqueFd fd = file_with("data", 1 << 20, &data);
  const auto engine = make();
  std::mt19937_64 random(11);
  std::vector<std::vector<std::byte>> buffers(300);
  std::vector<Request> requests(buffers.size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    buffers[i].resize(1 + random() % 9000);
    requests[i] = {.fd = fd.get(),
                   .offset_bytes = random() % (data.size() - buffers[i].size()),
                   .buffer = buffers[i],
                   .tag = i};
  }
  const auto results = run(*engine, requests);
  ASSERT_EQ(results.size(), buffers.size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_EQ(results.at(i), static_cast<std::int64_t>(buffers[i].size()));
    EXPECT_EQ(
        std::memcmp(buffers[i].data(), data.data() + requests[i].offset_bytes, buffers[i].size()),
        0);
  }
}

TEST_P(EngineSuite, parallel_writes_land_where_they_were_sent) {
  const UniqueFd fd = open_file("data");
  const auto engine = make();
  constexpr std::size_t kBlocks = 64;
  std::vector<std::vector<std::byte>> blocks(kBlocks);
  std::vector<Request> requests(kBlocks);
  for (std::size_t i = 0; i < kBlocks; ++i) {
    blocks[i].assign(4096, static_cast<std::byte>(i));
    requests[i] = {
        .op = Op::write, .fd = fd.get(), .offset_bytes = i * 4096, .buffer = blocks[i], .tag = i};
  }
  for (const auto& [tag, result] : run(*engine, requests)) EXPECT_EQ(result, 4096) << tag;
  EXPECT_EQ(run_one(*engine, {.op = Op::fdatasync, .fd = fd.get()}), 0);
  EXPECT_EQ(run_one(*engine, {.op = Op::fsync, .fd = fd.get()}), 0);
  const std::string written = contents_of(dir_.file("data"));
  ASSERT_EQ(written.size(), kBlocks * 4096);
  for (std::size_t i = 0; i < kBlocks; ++i)
    EXPECT_EQ(written.substr(i * 4096, 4096), std::string(4096, static_cast<char>(i)));
}

TEST_P(EngineSuite, a_read_across_the_end_is_short_and_one_beyond_it_is_empty) {
  const UniqueFd fd = file_with("data", 5000, nullptr);
  const auto engine = make();
  std::vector<std::byte> buffer(4096);
  EXPECT_EQ(run_one(*engine, {.fd = fd.get(), .offset_bytes = 4000, .buffer = buffer}), 1000);
  EXPECT_EQ(run_one(*engine, {.fd = fd.get(), .offset_bytes = 9000, .buffer = buffer}), 0);
  EXPECT_EQ(run_one(*engine, {.fd = fd.get(), .offset_bytes = 0, .buffer = {}}), 0);
}

TEST_P(EngineSuite, errors_come_back_as_negative_errno_of_their_own_request) {
  const UniqueFd good = file_with("data", 4096, nullptr);
  const UniqueFd read_only = open_file("data", O_RDONLY);
  const auto engine = make();
  std::vector<std::byte> a(16);
  std::vector<std::byte> b(16);
  std::vector<std::byte> c(16);
  const std::array requests = {
      Request{.fd = 1 << 20, .buffer = a, .tag = 1},
      Request{.fd = good.get(), .buffer = b, .tag = 2},
      Request{.op = Op::write, .fd = read_only.get(), .buffer = c, .tag = 3}};
  const auto results = run(*engine, requests);
  ASSERT_EQ(results.size(), 3U);
  EXPECT_EQ(results.at(1), -EBADF);
  EXPECT_EQ(results.at(2), 16);
  EXPECT_EQ(results.at(3), -EBADF);
}

TEST_P(EngineSuite, a_full_queue_accepts_a_prefix_and_goes_on_after_a_reap) {
  std::vector<std::byte> data;
  const UniqueFd fd = file_with("data", 4096, &data);
  const auto engine = make({.depth = 4});
  ASSERT_EQ(engine->caps().depth_max, 4U);
  std::vector<std::array<std::byte, 8>> buffers(10);
  std::vector<Request> requests(10);
  for (std::size_t i = 0; i < 10; ++i)
    requests[i] = {.fd = fd.get(), .buffer = buffers[i], .tag = i};

  Result<std::size_t> accepted = engine->submit(requests);
  ASSERT_TRUE(accepted.ok());
  EXPECT_EQ(*accepted, 4U);
  EXPECT_EQ(engine->in_flight(), 4U);
  EXPECT_EQ(*engine->submit(std::span(requests).subspan(4)), 0U) << "the queue is full";

  std::array<Completion, 3> out;
  const Result<std::size_t> reaped = engine->reap(out, 3, kPatience);
  ASSERT_TRUE(reaped.ok());
  EXPECT_EQ(*reaped, 3U);
  EXPECT_EQ(*engine->submit(std::span(requests).subspan(4)), 3U);
  std::array<Completion, 8> rest;
  EXPECT_EQ(*engine->reap(rest, 4, kPatience), 4U);
  EXPECT_EQ(engine->in_flight(), 0U);
}

TEST_P(EngineSuite, waiting_for_more_than_is_in_flight_returns_what_there_is) {
  const UniqueFd fd = file_with("data", 64, nullptr);
  const auto engine = make();
  std::array<Completion, 8> out;
  EXPECT_EQ(*engine->reap(out, 8, kForever), 0U) << "nothing is in flight";
  std::array<std::byte, 8> buffer;
  const Request request{.fd = fd.get(), .buffer = buffer};
  ASSERT_EQ(*engine->submit({&request, 1}), 1U);
  EXPECT_EQ(*engine->reap(out, 8, kForever), 1U);
}

TEST_P(EngineSuite, vectored_transfers_scatter_and_gather_beyond_the_kernels_piece_limit) {
  constexpr std::size_t kPieces = 2500;  // more than IOV_MAX
  std::vector<std::byte> data;
  const UniqueFd fd = file_with("data", kPieces * 3, &data);
  const auto engine = make();
  std::vector<std::array<std::byte, 3>> parts(kPieces);
  const std::vector<std::span<std::byte>> pieces(parts.begin(), parts.end());
  ASSERT_EQ(run_one(*engine, {.fd = fd.get(), .pieces = pieces}), kPieces * 3);
  for (std::size_t i = 0; i < kPieces; ++i)
    ASSERT_EQ(std::memcmp(parts[i].data(), data.data() + i * 3, 3), 0) << "piece " << i;

  const UniqueFd copy = open_file("copy");
  ASSERT_EQ(run_one(*engine, {.op = Op::write, .fd = copy.get(), .pieces = pieces}), kPieces * 3);
  EXPECT_EQ(contents_of(dir_.file("copy")), contents_of(dir_.file("data")));
}

TEST_P(EngineSuite, short_counts_are_continued_until_all_bytes_moved) {
  std::vector<std::byte> data;
  const UniqueFd fd = file_with("data", 1 << 16, &data);
  std::atomic<int> calls{0};
  const auto engine = make({.depth = 4, .tamper = [&](const Request&, std::int64_t raw) {
                              ++calls;
                              return raw > 1000 ? 1000 : raw;
                            }});
  std::vector<std::byte> buffer(data.size());
  EXPECT_EQ(run_one(*engine, {.fd = fd.get(), .buffer = buffer}), 1 << 16);
  EXPECT_EQ(buffer, data);
  EXPECT_EQ(calls, 66);

  std::vector<std::byte> scattered(data.size());
  const std::array pieces = {std::span(scattered).first(1500), std::span(scattered).subspan(1500)};
  EXPECT_EQ(run_one(*engine, {.fd = fd.get(), .pieces = pieces}), 1 << 16);
  EXPECT_EQ(scattered, data);

  const UniqueFd copy = open_file("copy");
  EXPECT_EQ(run_one(*engine, {.op = Op::write, .fd = copy.get(), .buffer = buffer}), 1 << 16);
  EXPECT_EQ(contents_of(dir_.file("copy")), contents_of(dir_.file("data")));
}

TEST_P(EngineSuite, interrupted_and_busy_transfers_are_repeated) {
  std::vector<std::byte> data;
  const UniqueFd fd = file_with("data", 4096, &data);
  for (const int error : {EINTR, EAGAIN}) {
    std::atomic<int> calls{0};
    const auto engine = make({.depth = 1, .tamper = [&](const Request&, std::int64_t raw) {
                                return calls++ < 3 ? -error : raw;
                              }});
    std::vector<std::byte> buffer(4096);
    EXPECT_EQ(run_one(*engine, {.fd = fd.get(), .buffer = buffer}), 4096);
    EXPECT_EQ(calls, 4);
    EXPECT_EQ(buffer, data);
  }
}

TEST_P(EngineSuite, an_error_that_never_ends_is_believed_in_the_end) {
  const UniqueFd fd = file_with("data", 4096, nullptr);
  const auto engine =
      make({.depth = 1, .tamper = [](const Request&, std::int64_t) { return -EAGAIN; }});
  std::vector<std::byte> buffer(4096);
  EXPECT_EQ(run_one(*engine, {.fd = fd.get(), .buffer = buffer}), -EAGAIN);
}

TEST_P(EngineSuite, hard_errors_are_reported_at_once) {
  const UniqueFd fd = file_with("data", 4096, nullptr);
  for (const int error : {EIO, ENOSPC, EROFS, ESTALE}) {
    std::atomic<int> calls{0};
    const auto engine = make({.depth = 1, .tamper = [&](const Request&, std::int64_t) {
                                ++calls;
                                return -error;
                              }});
    std::vector<std::byte> buffer(4096);
    EXPECT_EQ(run_one(*engine, {.op = Op::write, .fd = fd.get(), .buffer = buffer}), -error);
    EXPECT_EQ(calls, 1);
  }
}

TEST_P(EngineSuite, fsync_is_never_repeated_whatever_it_says) {
  const UniqueFd fd = file_with("data", 4096, nullptr);
  for (const Op op : {Op::fsync, Op::fdatasync}) {
    for (const int error : {EINTR, EAGAIN, EIO}) {
      std::atomic<int> calls{0};
      const auto engine = make({.depth = 1, .tamper = [&](const Request&, std::int64_t raw) {
                                  return calls++ == 0 ? -error : raw;
                                }});
      EXPECT_EQ(run_one(*engine, {.op = op, .fd = fd.get()}), -error);
      EXPECT_EQ(calls, 1);
    }
  }
}

TEST_P(EngineSuite, a_write_that_moves_nothing_is_an_error_and_not_a_loop) {
  const UniqueFd fd = file_with("data", 4096, nullptr);
  const auto engine =
      make({.depth = 1, .tamper = [](const Request&, std::int64_t) { return std::int64_t{0}; }});
  std::vector<std::byte> buffer(4096);
  EXPECT_EQ(run_one(*engine, {.op = Op::write, .fd = fd.get(), .buffer = buffer}), -EIO);
}

TEST_P(EngineSuite, direct_transfers_keep_their_alignment_when_cut_short) {
  const UniqueFd plain = file_with("data", 3 * 4096 + 1000, nullptr);
  ASSERT_EQ(::fsync(plain.get()), 0);
  const UniqueFd fd(::open(dir_.file("data").c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
  if (!fd) GTEST_SKIP() << "no O_DIRECT in " << dir_.path();
  const Result<MappedArena> memory = MappedArena::map(64 << 10, false, true);
  ASSERT_TRUE(memory.ok());
  const std::span<std::byte> buffer = memory->bytes().first(4 * 4096);
  int calls = 0;
  const auto engine = make({.depth = 1, .tamper = [&](const Request& request, std::int64_t raw) {
                              const bool cut = calls++ == 0;
                              if (request.op == Op::read) return cut ? std::int64_t{8192} : raw;
                              return cut ? std::int64_t{4096 + 7} : raw;
                            }});
  EXPECT_EQ(run_one(*engine, {.fd = fd.get(), .buffer = buffer, .align_bytes = 4096}),
            3 * 4096 + 1000);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(buffer.data()), 3 * 4096 + 1000),
            contents_of(dir_.file("data")));

  calls = 0;
  std::ranges::fill(buffer, std::byte{'x'});
  EXPECT_EQ(
      run_one(*engine, {.op = Op::write, .fd = fd.get(), .buffer = buffer, .align_bytes = 4096}),
      4 * 4096);
  EXPECT_EQ(calls, 2) << "the write continued at a block boundary";
  EXPECT_EQ(contents_of(dir_.file("data")), std::string(std::size_t{4} * 4096, 'x'));
}

TEST_P(EngineSuite, a_cancelled_request_completes_exactly_once) {
  const UniqueFd fd = file_with("data", 1 << 20, nullptr);
  const auto engine = make();
  std::vector<std::vector<std::byte>> buffers(kDepth, std::vector<std::byte>(1 << 16));
  std::vector<Request> requests(kDepth);
  for (std::size_t i = 0; i < kDepth; ++i)
    requests[i] = {.fd = fd.get(), .offset_bytes = i << 16, .buffer = buffers[i], .tag = i};
  ASSERT_EQ(*engine->submit(requests), kDepth);
  for (std::size_t i = 0; i < kDepth; ++i) EXPECT_TRUE(engine->cancel(i).ok());
  EXPECT_TRUE(engine->cancel(12345).ok()) << "an unknown tag is nothing to stop";
  for (const auto& [tag, result] : run(*engine, {}))
    EXPECT_TRUE(result == 1 << 16 || result == -ECANCELED) << tag << ": " << result;
  EXPECT_EQ(engine->in_flight(), 0U);
}

TEST_P(EngineSuite, a_drained_engine_is_empty_and_takes_nothing_more) {
  const UniqueFd fd = open_file("data");
  const auto engine = make();
  std::vector<std::byte> block(4096, std::byte{'d'});
  const Request request{.op = Op::write, .fd = fd.get(), .buffer = block};
  ASSERT_EQ(*engine->submit({&request, 1}), 1U);
  EXPECT_TRUE(engine->drain(kPatience).ok());
  EXPECT_EQ(engine->in_flight(), 0U);
  EXPECT_EQ(contents_of(dir_.file("data")), std::string(4096, 'd'));
  EXPECT_EQ(engine->submit({&request, 1}).status().code(), Code::invalid_argument);
}

TEST_P(EngineSuite, the_destructor_waits_for_what_is_in_flight) {
  const UniqueFd fd = open_file("data");
  constexpr std::size_t kBytes = std::size_t{1} << 22;
  std::vector<std::byte> block(kBytes, std::byte{'w'});
  {
    const auto engine = make();
    const Request request{.op = Op::write, .fd = fd.get(), .buffer = block};
    ASSERT_EQ(*engine->submit({&request, 1}), 1U);
  }
  std::ranges::fill(block, std::byte{'!'});  // ours again: nobody may still read it
  EXPECT_EQ(contents_of(dir_.file("data")), std::string(kBytes, 'w'));
}

TEST_P(EngineSuite, a_forked_child_is_refused_and_does_no_harm) {
  std::vector<std::byte> data;
  const UniqueFd fd = file_with("data", 4096, &data);
  auto engine = make();
  std::vector<std::byte> buffer(4096);
  const Request request{.fd = fd.get(), .buffer = buffer};
  ASSERT_EQ(*engine->submit({&request, 1}), 1U);

  const ChildEnd end = in_child([&] {
    std::array<Completion, 1> out;
    if (engine->submit({&request, 1}).status().code() != Code::unsupported) return 1;
    if (engine->reap(out, 1, kForever).status().code() != Code::unsupported) return 2;
    if (engine->cancel(0).code() != Code::unsupported) return 3;
    if (engine->drain(kForever).code() != Code::unsupported) return 4;
    engine.reset();  // must return at once, and leave the parent's engine alone
    return 0;
  });
  EXPECT_EQ(end.signal, 0) << "14: the child hung";
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_EQ(run(*engine, {}).at(0), 4096) << "the parent's request is still the parent's";
  EXPECT_EQ(buffer, data);
}

TEST_P(EngineSuite, registered_files_and_buffers_move_the_same_bytes) {
  std::vector<std::byte> data;
  const UniqueFd fd = file_with("data", 1 << 16, &data);
  const auto engine = make();
  const Result<MappedArena> memory = MappedArena::map(2 << 20, false, true);
  ASSERT_TRUE(memory.ok());
  const Status pinned = engine->register_buffers(memory->bytes());
  EXPECT_EQ(pinned.ok(), engine->caps().registered_buffers) << pinned.message();
  const Result<int> slot = engine->register_file(fd.get());
  ASSERT_EQ(slot.ok(), engine->caps().registered_files) << slot.status().message();

  Request request{.fd = fd.get(), .buffer = memory->bytes().subspan(4096, 1 << 16)};
  if (slot.ok()) request.file_slot = *slot;
  EXPECT_EQ(run_one(*engine, request), 1 << 16);
  EXPECT_TRUE(std::ranges::equal(request.buffer, data));

  const UniqueFd copy = open_file("copy");
  request = {.op = Op::write, .fd = copy.get(), .buffer = request.buffer};
  EXPECT_EQ(run_one(*engine, request), 1 << 16);
  EXPECT_EQ(contents_of(dir_.file("copy")), contents_of(dir_.file("data")));
  if (slot.ok()) {
    EXPECT_TRUE(engine->unregister_file(*slot).ok());
    EXPECT_FALSE(engine->unregister_file(*slot).ok()) << "the slot is free already";
  }
  EXPECT_FALSE(engine->unregister_file(1 << 20).ok());
  EXPECT_FALSE(engine->register_buffers({}).ok());
}

TEST_P(EngineSuite, a_depth_of_zero_is_refused) {
  EXPECT_EQ(GetParam().make({.depth = 0}).status().code(), Code::invalid_argument);
}

}  // namespace stoker::testing
