// The C++ side of bench/loader_front.py: what stoker_images() in bench/peers/side.py does, with the
// public headers. For each line of input it runs once and prints one line of JSON.
//
//     loader_side SHARDS MEMORY_BYTES
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

#include "stoker/loader.h"

namespace {

using Time = std::chrono::steady_clock::time_point;

double seconds_since(Time begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Samples and bytes of a batch, both of whose columns were looked at.
stoker::Status count(const stoker::Batch& batch, std::uint64_t& samples, std::uint64_t& bytes) {
  STOKER_ASSIGN(const std::span<const std::int64_t> labels, batch.values<std::int64_t>("cls"));
  samples += labels.size();
  for (const std::span<const std::byte> image : batch.find("jpg")->views) bytes += image.size();
  return {};
}

stoker::Status run(const stoker::Dataset& dataset, std::uint64_t memory_bytes) {
  STOKER_ASSIGN(stoker::Loader loader,
                stoker::Loader::open({.data = dataset,
                                      .batch_size = 64,
                                      .seed = 7,
                                      .fields = {{"jpg", stoker::FieldKind::bytes},
                                                 {"cls", stoker::FieldKind::int64}},
                                      .memory_bytes = memory_bytes}));
  const Time begin = std::chrono::steady_clock::now();
  STOKER_TRY(loader.next().status());
  const double first_s = seconds_since(begin);
  const Time first = std::chrono::steady_clock::now();
  std::uint64_t samples = 0;
  std::uint64_t bytes = 0;
  for (;;) {
    STOKER_ASSIGN(const std::optional<stoker::Batch> batch, loader.next());
    if (!batch) break;
    STOKER_TRY(count(*batch, samples, bytes));
  }
  const double seconds = seconds_since(first);
  std::printf(R"({"samples_per_s": %f, "bytes_per_s": %f, "seconds": %f, "first_s": %f})"
              "\n",
              static_cast<double>(samples) / seconds, static_cast<double>(bytes) / seconds, seconds,
              first_s);
  return {};
}

}  // namespace

int main(int count, char** words) {
  if (count != 3) return 2;
  const auto dataset = stoker::Dataset::open(words[1]);
  stoker::Status status = dataset.status();
  std::puts("ready");
  std::fflush(stdout);
  std::string line;
  while (status.ok() && std::getline(std::cin, line)) {
    status = run(*dataset, std::strtoull(words[2], nullptr, 10));
    std::fflush(stdout);
  }
  if (!status.ok()) std::cerr << status.message() << '\n';
  return status.ok() ? 0 : 1;
}
