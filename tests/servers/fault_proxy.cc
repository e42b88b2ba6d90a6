#include "servers/fault_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace stoker::testing {
namespace {

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

bool send_all(int to, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

/// Appends what comes next; false at the end.
bool receive(int from, std::string& into) {
  char buffer[65536];
  const ssize_t count = ::recv(from, buffer, sizeof buffer, 0);
  if (count > 0) into.append(buffer, static_cast<std::size_t>(count));
  return count > 0;
}

/// Waits so long for the client to end the connection.
bool has_gone_within(int client, std::chrono::milliseconds time) {
  pollfd ended{.fd = client, .events = POLLIN, .revents = 0};
  return ::poll(&ended, 1, static_cast<int>(time.count())) > 0;
}

/// Ends a connection so that the client sees a reset.
void reset(int client) {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(client, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return text;
}

/// Returns where the line of a header begins, or npos. `name` is in lower case.
std::size_t find_header(const std::string& head, const std::string& name) {
  const std::size_t found = lower(head).find("\r\n" + name + ":");
  return found == std::string::npos ? found : found + 2;
}

std::string header_value(const std::string& head, const std::string& name) {
  const std::size_t found = find_header(head, name);
  if (found == std::string::npos) return {};
  const std::size_t begin = head.find_first_not_of(' ', found + name.size() + 1);
  return head.substr(begin, head.find('\r', begin) - begin);
}

void set_header(std::string& head, const std::string& name, const std::string& line) {
  if (const std::size_t found = find_header(head, name); found != std::string::npos)
    head.erase(found, head.find('\n', found) + 1 - found);
  if (!line.empty()) head.insert(head.find("\r\n") + 2, line + "\r\n");
}

/// Reads one request; false if the client has gone.
bool read_request(int client, std::string& received, ProxiedRequest& request) {
  std::size_t end = 0;
  while ((end = received.find("\r\n\r\n")) == std::string::npos)
    if (!receive(client, received)) return false;
  request.head = received.substr(0, end + 4);
  received.erase(0, end + 4);
  const auto size =
      std::strtoull(header_value(request.head, "content-length").c_str(), nullptr, 10);
  while (received.size() < size)
    if (!receive(client, received)) return false;
  request.body = received.substr(0, size);
  received.erase(0, size);
  const std::size_t space = request.head.find(' ');
  request.method = request.head.substr(0, space);
  request.target = request.head.substr(space + 1, request.head.find(' ', space + 1) - space - 1);
  return true;
}

}  // namespace

FaultProxy::FaultProxy(std::string server, ChooseFault choose)
    : server_(std::move(server)),
      choose_(std::move(choose)),
      listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  constexpr int kBacklog = 128;
  if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      ::listen(listener_.get(), kBacklog) != 0 ||
      ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    std::abort();
  port_ = ntohs(address.sin_port);
  acceptor_ = std::jthread([this] { accept_all(); });
}

FaultProxy::~FaultProxy() {
  is_ending_ = true;
  ::shutdown(listener_.get(), SHUT_RDWR);  // accept() returns
  acceptor_.join();
  std::vector<std::jthread> threads;
  {
    MutexLock lock(mutex_);
    for (const int client : clients_) ::shutdown(client, SHUT_RDWR);
    threads = std::move(threads_);
  }
}

std::string FaultProxy::url() const {
  return "http://127.0.0.1:" + std::to_string(port_);
}

void FaultProxy::accept_all() {
  while (!is_ending_) {
    const int client = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) continue;
    MutexLock lock(mutex_);
    clients_.push_back(client);
    threads_.emplace_back([this, client] { serve(client); });
  }
}

void FaultProxy::serve(int client) {
  std::string received;
  ProxiedRequest request;
  bool is_open = true;
  while (is_open && !is_ending_ && read_request(client, received, request)) {
    const Fault fault = choose_(request, request_count_++);
    answer(client, request, fault);
    is_open = fault.kind == Fault::Kind::none || fault.kind == Fault::Kind::answer;
  }
  MutexLock lock(mutex_);
  std::erase(clients_, client);
  ::close(client);
}

/// Sends a request to the server, on a connection of its own, and returns the whole answer.
std::string FaultProxy::ask_server(const ProxiedRequest& request, const Fault& fault) const {
  std::string head = request.head;
  std::string body = request.body;
  set_header(head, "connection", "Connection: close");
  if (fault.kind == Fault::Kind::ignore_range) set_header(head, "range", "");
  if (fault.kind == Fault::Kind::spoil_body && !body.empty()) body[body.size() / 2] ^= 1;
  const UniqueFd server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = loopback(std::atoi(server_.substr(server_.rfind(':') + 1).c_str()));
  std::string reply;
  if (::connect(server.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return reply;
  // A server that refuses a request may answer before it has read the body, or without reading it.
  const std::jthread sender(
      [&] { static_cast<void>(send_all(server.get(), head) && send_all(server.get(), body)); });
  while (receive(server.get(), reply)) {
  }
  ::shutdown(server.get(), SHUT_RDWR);
  return reply;
}

void FaultProxy::answer(int client, const ProxiedRequest& request, const Fault& fault) {
  using Kind = Fault::Kind;
  if (fault.kind == Kind::reset) return reset(client);
  if (fault.kind == Kind::answer) {
    const std::string body = request.method == "HEAD" ? "" : fault.body;
    send_all(client, "HTTP/1.1 " + std::to_string(fault.status) + " Fault\r\n" + fault.headers +
                         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    return;
  }
  const std::string reply = ask_server(request, fault);
  if (fault.hold) fault.hold();
  if (fault.kind == Kind::lose_reply || reply.empty()) return reset(client);
  const std::size_t end = reply.find("\r\n\r\n") + 4;
  std::string head = reply.substr(0, end);
  std::string body = reply.substr(end);
  if (fault.kind == Kind::spoil_reply && !body.empty()) body[body.size() / 2] ^= 1;
  if (fault.kind == Kind::shift_range)
    set_header(head, "content-range", "Content-Range: bytes 1-2/3");
  if (fault.kind == Kind::endless) {
    set_header(head, "content-length", "");
    set_header(head, "transfer-encoding", "");
    send_all(client, head);
    while (send_all(client, std::string(65536, 'x'))) {
    }
    return;
  }
  if (fault.kind == Kind::drip) {
    send_all(client, head);
    for (std::size_t i = 0; i < body.size() && send_all(client, body.substr(i, 1)); ++i)
      if (has_gone_within(client, std::chrono::milliseconds(20))) return;
    return;
  }
  const bool is_cut = fault.kind == Kind::truncate || fault.kind == Kind::stall;
  if (is_cut && body.empty()) head.resize(head.size() / 2);
  send_all(client, head + body.substr(0, is_cut ? body.size() / 2 : body.size()));
  if (fault.kind == Kind::stall) {
    std::string ignored;
    while (receive(client, ignored)) {
    }
  }
  if (fault.kind == Kind::none && lower(head).find("connection: close") != std::string::npos)
    ::shutdown(client, SHUT_WR);
}

}  // namespace stoker::testing
