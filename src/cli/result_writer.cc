#include "cli/result_writer.h"

#include <signal.h>

#include <cerrno>
#include <ostream>
#include <utility>

namespace stoker::cli {
namespace {

constexpr std::size_t kPendingBytes = 64 << 10;

}  // namespace

Status write_out(Context& context, std::string_view text) {
  errno = 0;
  context.out.write(text.data(), static_cast<std::streamsize>(text.size()));
  context.out.flush();
  if (context.out) return {};
  const int why = errno != 0 ? errno : EIO;
  if (why == EPIPE) {
    ::signal(SIGPIPE, SIG_DFL);  // main() ignores it so that the error arrives here
    ::raise(SIGPIPE);
  }
  return Status::from_errno(why, "write", "standard output");
}

Status ResultWriter::line(std::string_view text) {
  if (context_.stop.stop_requested()) return Status(Code::cancelled, "stopped");
  pending_.append(text).append("\n");
  return pending_.size() < kPendingBytes && !context_.out_is_terminal ? Status() : flush();
}

Status ResultWriter::flush() {
  const std::string text = std::exchange(pending_, {});
  if (failure_.ok()) failure_ = write_out(context_, text);  // a failed stream loses the reason
  return failure_;
}

}  // namespace stoker::cli
