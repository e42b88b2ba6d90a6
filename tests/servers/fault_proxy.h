#pragma once

// A server of HTTP/1.1 on 127.0.0.1 between a client and a real server, which spoils what it is
// told to spoil; or a server of canned answers.

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/unique_fd.h"

namespace stoker::testing {

/// A request as the client has sent it.
struct ProxiedRequest {
  std::string method;
  std::string target;
  std::string head;  ///< All of it, with the first line.
  std::string body;
};

/// What happens to a request.
struct Fault {
  enum class Kind : std::uint8_t {
    none,
    answer,        ///< `status`, `headers` and `body`, without asking the server.
    reset,         ///< The connection is reset before the server is asked.
    lose_reply,    ///< The server has done it, and then the connection is reset.
    truncate,      ///< Half of the body of the answer, and then the end.
    stall,         ///< Half of the body of the answer, and then nothing until the client goes.
    spoil_body,    ///< A byte of the request's body is flipped.
    spoil_reply,   ///< A byte of the answer's body is flipped.
    ignore_range,  ///< The server never sees the header Range.
    shift_range,   ///< Content-Range names another range.
    endless,       ///< The answer's body never ends.
    drip,          ///< The answer's body comes in pieces of a byte, fifty a second.
  };
  Kind kind = Kind::none;
  int status = 200;
  std::string headers = {};  ///< Lines with "\r\n".
  std::string body = {};
  /// Called before the answer is sent; what it waits for must come before the proxy ends.
  std::function<void()> hold = {};
};

/// Asked for each request, with its number from 0, on the thread of its connection.
using ChooseFault = std::function<Fault(const ProxiedRequest& request, std::size_t number)>;

/// Thread safety: every method from any thread.
class FaultProxy {
 public:
  /// `server` is a URL with a port, or "" if every fault is an answer.
  FaultProxy(std::string server, ChooseFault choose);
  ~FaultProxy();
  FaultProxy(const FaultProxy&) = delete;
  FaultProxy& operator=(const FaultProxy&) = delete;

  std::string url() const;
  std::size_t request_count() const noexcept { return request_count_; }

 private:
  void accept_all();
  void serve(int client);
  void answer(int client, const ProxiedRequest& request, const Fault& fault);
  std::string ask_server(const ProxiedRequest& request, const Fault& fault) const;

  const std::string server_;
  const ChooseFault choose_;
  UniqueFd listener_;
  int port_ = 0;
  std::atomic<std::size_t> request_count_{0};
  std::atomic<bool> is_ending_{false};
  Mutex mutex_;
  std::vector<int> clients_ STOKER_GUARDED_BY(mutex_);
  std::vector<std::jthread> threads_ STOKER_GUARDED_BY(mutex_);
  std::jthread acceptor_;
};

}  // namespace stoker::testing
