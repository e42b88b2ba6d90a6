// The raw limit of bench/store_peers.py: parallel ranged GETs with libcurl alone, over connections
// that stay open, each on a thread of its own. For each line of input it gets every range once and
// prints one line of JSON.
//
//     ranged_gets LIST CONNECTIONS        LIST has lines "URL OFFSET SIZE"
//
// Bytes are copied to memory that is used again, as any client must do. Nothing else is checked but
// the status and the number of bytes.
#include <curl/curl.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Range {
  std::string url;
  std::size_t offset_bytes = 0;
  std::size_t size_bytes = 0;
};

struct Body {
  std::vector<char> bytes;
  std::size_t size_bytes = 0;
};

std::size_t on_body(char* data, std::size_t size, std::size_t count, void* pointer) {
  Body& body = *static_cast<Body*>(pointer);
  const std::size_t bytes = size * count;
  if (bytes > body.bytes.size() - body.size_bytes) return 0;
  std::memcpy(body.bytes.data() + body.size_bytes, data, bytes);
  body.size_bytes += bytes;
  return bytes;
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// A connection and its memory, which stay between runs.
struct Connection {
  explicit Connection(std::size_t body_bytes) {
    body.bytes.resize(body_bytes);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 512L << 10);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, &body);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() { curl_easy_cleanup(easy); }

  /// Returns 0, or the status that is wrong.
  long get(const Range& range) {
    const std::string text = std::to_string(range.offset_bytes) + "-" +
                             std::to_string(range.offset_bytes + range.size_bytes - 1);
    body.size_bytes = 0;
    curl_easy_setopt(easy, CURLOPT_URL, range.url.c_str());
    curl_easy_setopt(easy, CURLOPT_RANGE, text.c_str());
    const CURLcode code = curl_easy_perform(easy);
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    const bool is_whole = code == CURLE_OK && status == 206 && body.size_bytes == range.size_bytes;
    return is_whole ? 0 : std::max(status, 1L);
  }

  CURL* easy = curl_easy_init();
  Body body;
};

bool run(const std::vector<Range>& ranges, std::vector<std::unique_ptr<Connection>>& connections) {
  std::atomic<std::size_t> next = 0;
  std::atomic<long> wrong = 0;
  const double cpu = cpu_seconds();
  const auto begin = std::chrono::steady_clock::now();
  {
    std::vector<std::jthread> threads;
    for (const auto& connection : connections)
      threads.emplace_back([&] {
        for (std::size_t i = next++; i < ranges.size() && wrong == 0; i = next++)
          if (const long status = connection->get(ranges[i]); status != 0) wrong = status;
      });
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::size_t bytes = 0;
  for (const Range& range : ranges) bytes += range.size_bytes;
  if (wrong != 0) {
    std::cerr << "a range was answered with status " << wrong << '\n';
    return false;
  }
  std::printf(R"({"bytes_per_s": %f, "cpu_s_per_gb": %f, "seconds": %f, "bytes": %zu})"
              "\n",
              static_cast<double>(bytes) / seconds,
              (cpu_seconds() - cpu) / (static_cast<double>(bytes) / 1e9), seconds, bytes);
  std::fflush(stdout);
  return true;
}

}  // namespace

int main(int count, char** words) {
  if (count != 3) return 2;
  std::vector<Range> ranges;
  std::ifstream list(words[1]);
  for (Range range; list >> range.url >> range.offset_bytes >> range.size_bytes;)
    ranges.push_back(range);
  if (ranges.empty()) return 2;
  curl_global_init(CURL_GLOBAL_DEFAULT);
  const std::size_t longest = std::ranges::max_element(ranges, {}, &Range::size_bytes)->size_bytes;
  std::vector<std::unique_ptr<Connection>> connections;
  for (long i = std::strtol(words[2], nullptr, 10); i > 0; --i)
    connections.push_back(std::make_unique<Connection>(longest));
  std::puts("ready");
  std::fflush(stdout);
  std::string line;
  while (std::getline(std::cin, line))
    if (!run(ranges, connections)) return 1;
  return 0;
}
