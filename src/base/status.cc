#include "stoker/status.h"

#include <cerrno>
#include <system_error>

namespace stoker {
namespace {

Code code_from_errno(int os_error) {
  switch (os_error) {
    case ENOENT: return Code::not_found;
    case EEXIST:
    case ENOTEMPTY: return Code::already_exists;
    case EINVAL:
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG: return Code::invalid_argument;
    case ENOSPC:
    case EDQUOT: return Code::no_space;
    case EAGAIN:
    case EBUSY:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ETIMEDOUT: return Code::unavailable;
    case EUCLEAN:
    case EBADMSG: return Code::corrupt;
    case ECANCELED: return Code::cancelled;
    case ENOSYS:
    case EOPNOTSUPP: return Code::unsupported;
    case EACCES:
    case EPERM:
    case EROFS: return Code::denied;
    default: return Code::io_error;
  }
}

}  // namespace

std::string_view code_name(Code code) noexcept {
  switch (code) {
    case Code::ok: return "ok";
    case Code::invalid_argument: return "invalid_argument";
    case Code::not_found: return "not_found";
    case Code::already_exists: return "already_exists";
    case Code::corrupt: return "corrupt";
    case Code::io_error: return "io_error";
    case Code::no_space: return "no_space";
    case Code::unavailable: return "unavailable";
    case Code::cancelled: return "cancelled";
    case Code::unsupported: return "unsupported";
    case Code::denied: return "denied";
  }
  return "unknown";
}

Status::Status(Code code, std::string message, int os_error)
    : rep_(code == Code::ok
               ? nullptr
               : std::make_shared<const Rep>(Rep{code, os_error, std::move(message)})) {}

Status Status::from_errno(int os_error, std::string_view op, std::string_view path) {
  std::string message(op);
  if (!path.empty()) message.append(" ").append(path);
  message.append(": ").append(std::generic_category().message(os_error));
  return Status(code_from_errno(os_error), std::move(message), os_error);
}

Status Status::with_context(std::string_view context) const {
  if (ok()) return {};
  return Status(code(), std::string(context).append(": ").append(message()), os_error());
}

}  // namespace stoker
