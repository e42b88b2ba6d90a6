#include "checkpoint/ranks/carried_place.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "checkpoint/ranks/carried_texts.h"
#include "checkpoint/ranks/coordinator.h"
#include "support/in_child.h"

namespace stoker {
namespace {

using testing::CarriedTexts;
using testing::CarrierThread;
using Verb = CarriedRequest::Verb;

Deadline in_the_end() {
  return deadline_after(std::chrono::seconds(60));
}

CarriedRequest find_of(const std::string& name) {
  return {.verb = Verb::find, .names = {name}};
}

TEST(MessageCarrierTest, requests_are_carried_in_order_and_answered_to_who_asked) {
  MessageCarrier carrier("the store");
  carrier.post({.verb = Verb::remove, .names = {"first"}});
  std::jthread asks(
      [&] { EXPECT_EQ(carrier.call(find_of("second"), in_the_end(), {})->at(0), "answer"); });
  EXPECT_EQ(carrier.next()->names.front(), "first");
  carrier.answer({});
  EXPECT_EQ(carrier.next()->names.front(), "second");
  carrier.answer({"answer"});
}

TEST(MessageCarrierTest, a_failure_reaches_those_who_wait_and_those_who_come_later) {
  MessageCarrier carrier("the store");
  std::vector<Status> heard(4);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < 3; ++i)
      threads.emplace_back(
          [&, i] { heard[i] = carrier.call(find_of("k"), Deadline::max(), {}).status(); });
    ASSERT_TRUE(carrier.next());  // one is being carried
    carrier.fail("the server has ended");
  }
  heard[3] = carrier.call(find_of("k"), Deadline::max(), {}).status();
  for (const Status& status : heard) {
    EXPECT_EQ(status.code(), Code::unavailable);
    EXPECT_EQ(status.message(), "the server has ended");
  }
  carrier.fail("another reason");
  carrier.answer({"too late"});
  EXPECT_EQ(carrier.call(find_of("k"), Deadline::max(), {}).status().message(),
            "the server has ended");
  EXPECT_FALSE(carrier.next());
}

TEST(MessageCarrierTest, a_store_that_hangs_is_waited_for_until_the_deadline) {
  MessageCarrier carrier("the store");
  const Status late = carrier.call(find_of("k"), Clock::now(), {}).status();
  EXPECT_EQ(late.code(), Code::unavailable);
  EXPECT_EQ(late.message(), "the store did not answer in time");
  carrier.post(find_of("next"));
  EXPECT_EQ(carrier.next()->names.front(), "next") << "what was given up is not carried any more";
}

TEST(MessageCarrierTest, a_pause_that_fails_ends_the_wait) {
  MessageCarrier carrier("the store");
  const auto interrupt = [](nanoseconds) { return Status(Code::cancelled, "interrupted"); };
  EXPECT_EQ(carrier.call(find_of("k"), Deadline::max(), interrupt).status().code(),
            Code::cancelled);
}

TEST(MessageCarrierTest, it_ends_when_it_is_closed_and_all_have_left) {
  MessageCarrier carrier("the store");
  carrier.enter();
  carrier.close();
  carrier.post(find_of("of a session that lasts longer"));
  EXPECT_TRUE(carrier.next());
  carrier.answer({});
  carrier.post(find_of("the last"));
  carrier.leave();
  EXPECT_EQ(carrier.call(find_of("k"), Deadline::max(), {}).status().code(), Code::unavailable);
  EXPECT_EQ(carrier.next()->names.front(), "the last");
  carrier.answer({});
  EXPECT_FALSE(carrier.next());
}

TEST(MessageCarrierTest, a_full_queue_is_waited_for_and_drops_what_nobody_waits_for) {
  MessageCarrier carrier("the store", 1);
  carrier.post(find_of("first"));
  carrier.post(find_of("dropped"));
  std::jthread asks([&] { EXPECT_TRUE(carrier.call(find_of("second"), in_the_end(), {}).ok()); });
  EXPECT_EQ(carrier.next()->names.front(), "first");
  carrier.answer({});
  EXPECT_EQ(carrier.next()->names.front(), "second");
  carrier.answer({});
}

TEST(MessageCarrierTest, a_forked_child_has_no_carrier_and_does_not_wait_for_one) {
  MessageCarrier carrier("the store");
  const testing::ChildEnd end = testing::in_child([&] {
    carrier.post(find_of("k"));
    carrier.close();
    const Status refused = carrier.call(find_of("k"), Deadline::max(), {}).status();
    return refused.code() == Code::unsupported && !carrier.next() ? 0 : 1;
  });
  EXPECT_EQ(end.exit_code, 0);
}

TEST(CarriedPlaceTest, a_long_text_is_stored_in_pieces_before_it_is_seen) {
  const auto texts = std::make_shared<CarriedTexts>();
  const CarrierThread thread(texts);
  CarriedPlace place({.carrier = thread.carrier(), .prefix = "p/", .piece_bytes = 4});
  ASSERT_TRUE(place.publish("k", "0123456789", in_the_end()).ok());
  EXPECT_EQ(texts->all().size(), 4U);
  for (const auto& [name, text] : texts->all()) {
    EXPECT_TRUE(name.starts_with("p/k")) << name;
    EXPECT_TRUE(text.size() <= 4 || text.starts_with("#"));
  }
  const std::vector<std::string> names{"k"};
  EXPECT_EQ(place.find(names, in_the_end())->at(0), "0123456789");
  ASSERT_TRUE(place.publish("k", "abcdefgh", in_the_end()).ok()) << "replaces all of it";
  EXPECT_EQ(texts->all().size(), 3U);
  EXPECT_EQ(place.take(names, in_the_end())->at(0), "abcdefgh");
  EXPECT_TRUE(place.find(names, in_the_end())->empty());
  EXPECT_TRUE(texts->all().empty());
}

TEST(CarriedPlaceTest, a_text_that_is_replaced_while_it_is_read_counts_as_missing) {
  const auto texts = std::make_shared<CarriedTexts>();
  const CarrierThread thread(texts);
  CarriedPlace place({.carrier = thread.carrier(), .piece_bytes = 4});
  ASSERT_TRUE(place.publish("k", "0123456789", in_the_end()).ok());
  for (const auto& [name, text] : texts->all())
    if (name.ends_with("/1")) texts->carry({.verb = Verb::remove, .names = {name}});
  const std::vector<std::string> names{"k"};
  EXPECT_TRUE(place.find(names, in_the_end())->empty());
}

TEST(CarriedPlaceTest, what_no_rank_has_written_is_refused) {
  const auto texts = std::make_shared<CarriedTexts>();
  const CarrierThread thread(texts);
  CarriedPlace place({.carrier = thread.carrier()});
  const std::vector<std::string> names{"k"};
  for (const char* const text :
       {"x", "#", "#w", "#w ", "#w 1x", "#w -1", "#w 99999999999999999999", "#w 65537"}) {
    texts->carry({.verb = Verb::put, .names = {"k"}, .text = text});
    EXPECT_EQ(place.find(names, in_the_end()).status().code(), Code::corrupt) << text;
  }
}

TEST(CarriedPlaceTest, a_message_that_did_not_arrive_in_time_is_withdrawn) {
  const auto carrier = std::make_shared<MessageCarrier>("the store");
  CarriedPlace place({.carrier = carrier});
  Status published;
  {
    std::jthread publishes([&] { published = place.publish("k", "text", Clock::now()); });
    EXPECT_EQ(carrier->next()->verb, Verb::put);  // and it takes its time
  }
  EXPECT_EQ(published.code(), Code::unavailable);
  carrier->answer({});
  const auto request = carrier->next();
  EXPECT_EQ(request->verb, Verb::remove);
  EXPECT_EQ(request->names, std::vector<std::string>{"k"});
}

TEST(CarriedPlaceTest, a_store_that_is_lost_with_a_rank_names_the_rank) {
  const auto carrier = std::make_shared<MessageCarrier>("the store");
  carrier->fail("the store has failed: closed by peer");
  int looks = 0;
  const auto follower = *make_coordinator(
      std::make_unique<CarriedPlace>(CarriedPlaceOptions{.carrier = carrier}),
      {.rank = 1, .world_size = 2, .where = "/run", .find_loss = [&](std::uint32_t) {
         return ++looks < 3 ? Status() : Status(Code::unavailable, "rank 0 has ended");
       }});
  EXPECT_EQ(follower->broadcast("k", "", Deadline::max()).status().message(), "rank 0 has ended");
  const auto other =
      *make_coordinator(std::make_unique<CarriedPlace>(CarriedPlaceOptions{.carrier = carrier}),
                        {.rank = 1, .world_size = 2, .where = "/run"});
  EXPECT_EQ(other->gather("k", "", Deadline::max()).status().message(),
            "/run: the store has failed: closed by peer");
}

}  // namespace
}  // namespace stoker
