/// \file
/// What carriers of messages share in tests, in place of torch.distributed's store.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "checkpoint/ranks/message_carrier.h"

namespace stoker::testing {

/// Texts by name that all ranks share.
///
/// Thread safety: every method from any thread.
class CarriedTexts {
 public:
  std::vector<std::string> carry(const CarriedRequest& request) {
    using Verb = CarriedRequest::Verb;
    const MutexLock lock(mutex_);
    std::vector<std::string> answer;
    const std::string& name = request.names.front();
    if (request.verb == Verb::put) texts_[name] = request.text;
    if (request.verb == Verb::claim)
      answer.push_back(texts_.try_emplace(name, request.text).first->second);
    if (request.verb == Verb::retire && texts_.contains(name) && texts_[name] == request.text)
      texts_.erase(name);
    for (const std::string& one : request.names) {
      const auto found = texts_.find(one);
      if (request.verb == Verb::remove) texts_.erase(one);
      if (request.verb == Verb::check && found != texts_.end()) answer.push_back(one);
      if (request.verb != Verb::find) continue;
      if (found == texts_.end() || found->second == kRetired) break;
      answer.push_back(found->second);
    }
    return answer;
  }
  std::map<std::string, std::string> all() const {
    const MutexLock lock(mutex_);
    return texts_;
  }

 private:
  mutable Mutex mutex_;
  std::map<std::string, std::string> texts_ STOKER_GUARDED_BY(mutex_);
};

/// A carrier, and the thread that Python would provide.
///
/// Thread safety: every method from any thread.
class CarrierThread {
 public:
  explicit CarrierThread(std::shared_ptr<CarriedTexts> texts)
      : carrier_(std::make_shared<MessageCarrier>("the store")),
        thread_([carrier = carrier_, texts = std::move(texts)] {
          while (const auto request = carrier->next()) carrier->answer(texts->carry(*request));
        }) {}
  ~CarrierThread() { carrier_->close(); }
  CarrierThread(const CarrierThread&) = delete;
  CarrierThread& operator=(const CarrierThread&) = delete;

  const std::shared_ptr<MessageCarrier>& carrier() const { return carrier_; }

 private:
  const std::shared_ptr<MessageCarrier> carrier_;
  std::jthread thread_;
};

}  // namespace stoker::testing
