/// \file
/// Status: the outcome of an operation. Result<T>: a value, or the Status of the failure.
#pragma once

#include <cassert>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "stoker/api.h"

namespace stoker {

/// Tells what a caller can do about a failure, not where the failure came from. Append only: the
/// numbers are part of the Python and JSON interfaces.
enum class Code : std::uint8_t {
  ok = 0,
  invalid_argument,  ///< The request can never succeed.
  not_found,         ///< No such object; creating it may help.
  already_exists,    ///< A conditional create found the name taken.
  corrupt,           ///< The bytes read are wrong. Never retried.
  io_error,          ///< The device or the kernel reported an error. Never retried after fsync.
  no_space,          ///< Freeing space may help.
  unavailable,       ///< Transient; retrying with back-off may help.
  cancelled,         ///< The caller's stop token fired.
  unsupported,       ///< This build, kernel or device lacks the feature.
  denied,            ///< Not permitted here; other rights or another path may help.
};

/// Returns the enumerator's name, such as "io_error".
STOKER_API std::string_view code_name(Code code) noexcept;

/// The outcome of an operation. Copies share one allocation; an OK status allocates nothing.
///
/// Thread safety: immutable after construction.
class [[nodiscard]] STOKER_API Status {
 public:
  Status() noexcept = default;
  Status(Code code, std::string message, int os_error = 0);

  /// Maps `os_error` to a Code; the message reads "op path: strerror".
  static Status from_errno(int os_error, std::string_view op, std::string_view path);

  bool ok() const noexcept { return rep_ == nullptr; }
  Code code() const noexcept { return rep_ ? rep_->code : Code::ok; }
  int os_error() const noexcept { return rep_ ? rep_->os_error : 0; }
  std::string_view message() const noexcept { return rep_ ? std::string_view(rep_->message) : ""; }

  /// Returns the same failure with "context: " before its message; OK stays OK. Used where an error
  /// leaves a layer.
  Status with_context(std::string_view context) const;

 private:
  struct Rep {
    Code code;
    int os_error;
    std::string message;
  };
  std::shared_ptr<const Rep> rep_;
};

/// A value or a failure. The names of its members are those of C++23 `std::expected<T, Status>`,
/// with status() for error(). `*` and `->` require a value, which they assert in builds without
/// NDEBUG.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT(google-explicit-constructor)
  /// `status` must not be OK.
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    assert(!status_.ok());
  }

  bool ok() const noexcept { return value_.has_value(); }
  bool has_value() const noexcept { return ok(); }
  explicit operator bool() const noexcept { return ok(); }
  const Status& status() const noexcept { return status_; }
  T& operator*() & noexcept { return checked(); }
  const T& operator*() const& noexcept { return checked(); }
  T&& operator*() && noexcept { return std::move(checked()); }
  T* operator->() noexcept { return &checked(); }
  const T* operator->() const noexcept { return &checked(); }

 private:
  T& checked() noexcept {
    assert(ok() && "this Result is a failure: look at status()");
    return *value_;
  }
  const T& checked() const noexcept {
    assert(ok() && "this Result is a failure: look at status()");
    return *value_;
  }

  std::optional<T> value_;
  Status status_;
};

}  // namespace stoker

#define STOKER_CONCAT_INNER(a, b) a##b
#define STOKER_CONCAT(a, b) STOKER_CONCAT_INNER(a, b)

/// Returns from the enclosing function if `expr`, a Status, is not OK.
#define STOKER_TRY(expr)                                                                       \
  do {                                                                                         \
    if (::stoker::Status stoker_status_ = (expr); !stoker_status_.ok()) return stoker_status_; \
  } while (false)

/// Initializes `decl` with the value of `expr`, a Result, or returns its Status from the enclosing
/// function.
#define STOKER_ASSIGN(decl, expr) \
  STOKER_ASSIGN_INNER(STOKER_CONCAT(stoker_result_, __LINE__), decl, expr)
#define STOKER_ASSIGN_INNER(result, decl, expr) \
  auto result = (expr);                         \
  if (!result.ok()) return result.status();     \
  decl = *std::move(result)
