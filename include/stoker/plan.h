/// \file
/// Calculators for storage: what accelerators read, how large and slow a checkpoint is, how often
/// to save, how long drives live, what a cluster needs. docs/planning.md derives every formula.
///
///     auto need = stoker::plan::read({.gpus = 8, .batch = 256, .sample = Bytes{130e3},
///                                     .step = Seconds{0.2}});
///     if (need.ok()) std::fputs(render_text(*need).c_str(), stdout);
///     const std::optional<BytesPerSecond> rate = need->find<BytesPerSecond>("needed");
///
/// `stoker plan KIND`, `stoker.plan.KIND()` of Python and the functions below are one table: a
/// field has one name everywhere, and `stoker plan KIND --help` says what each means. Fields that
/// are not set have their defaults. Every function is pure, and fails with `invalid_argument`, and
/// a message that begins with the name of the field, if a field is missing, zero, negative, not
/// finite, or beyond its limit.
///
/// Thread safety: every function from any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stoker/api.h"
#include "stoker/quantity.h"
#include "stoker/status.h"

namespace stoker::plan {

/// A number of an answer, in base units: bytes, seconds, dollars, operations; shares of one.
struct Value {
  double count = 0;
  Unit unit = Unit::number;
};

/// An input as it was used.
struct Given {
  std::string name;
  std::string text;     ///< As it was written: "130KB".
  Value value;          ///< Of a word, 0.
  std::string origin;   ///< "given", "default", "catalogue: NAME", "measured in DIR, xfs".
  std::string source;   ///< Where the catalogue has it from, and when; otherwise empty.
  bool is_used = true;  ///< False if the answer is the same without it.
};

/// One calculation. The formula names fields and earlier steps.
struct Step {
  std::string name;
  std::string formula;  ///< "gpus * batch / step"
  std::string numbers;  ///< "8 * 256 / 200ms"
  Value value;
  std::string note;  ///< One sentence, or empty.
};

/// Curves of one quantity over another.
struct Plot {
  struct Line {
    std::string name;
    std::vector<std::pair<double, double>> points;
  };
  std::string title;
  std::string x_name, y_name;
  Unit x_unit = Unit::number, y_unit = Unit::number;
  bool is_x_logarithmic = false;
  std::vector<Line> lines = {};
  std::vector<Line> marks = {};  ///< One point each.
};

struct Answer {
  std::string kind;
  std::string question;
  std::vector<Given> given;
  std::vector<Step> steps;
  std::vector<std::string> results;             ///< The steps that the question asks for.
  std::vector<std::vector<std::string>> table;  ///< Of `cluster`: titles, then the tiers.
  std::vector<std::string> binds;               ///< What decides the result.
  std::vector<std::string> changes;             ///< What would change it, and by how much.
  std::optional<Plot> plot;

  /// Returns the value of a step: nothing if there is none of that name, or if it is another
  /// quantity.
  template <typename Quantity>
  std::optional<Quantity> find(std::string_view name) const {
    for (const Step& step : steps)
      if (step.name == name && step.value.unit == kUnitOf<Quantity>)
        return Quantity{step.value.count};
    return std::nullopt;
  }
};

STOKER_API std::string render_text(const Answer& answer);
/// One JSON object on one line. Numbers are in base units.
STOKER_API std::string render_json(const Answer& answer);
/// Returns `invalid_argument` if the answer has no plot.
STOKER_API Result<std::string> render_svg(const Answer& answer);

struct ReadInputs {
  std::optional<double> gpus = {}, batch = {};  ///< Samples each GPU takes in a step.
  std::optional<Bytes> sample = {};             ///< As stored.
  std::optional<Seconds> step = {};
  std::optional<Bytes> request = {};             ///< Size of a read of a shard.
  std::optional<BytesPerSecond> fed = {};        ///< What storage gives to all GPUs.
  std::optional<BytesPerSecond> read_rate = {};  ///< Of one drive.
};
STOKER_API Result<Answer> read(const ReadInputs& inputs);

struct EpochInputs {
  std::optional<double> samples = {};
  std::optional<Bytes> sample = {}, dataset = {};
  std::optional<Seconds> time = {};
  std::optional<BytesPerSecond> rate = {};
  std::optional<double> gpus = {};
};
STOKER_API Result<Answer> epoch(const EpochInputs& inputs);

struct CheckpointInputs {
  std::optional<double> parameters = {};
  std::optional<std::string> precision = {};  ///< fp32, bf16, fp16, fp8
  std::optional<std::string> optimizer = {};  ///< none, sgd, momentum, adam
  std::optional<Bytes> bytes_per_parameter = {};
  std::optional<Bytes> size = {};
  std::optional<double> drives = {};
  std::optional<BytesPerSecond> write_rate = {}, read_rate = {};  ///< Of one drive.
  std::optional<double> links = {};                               ///< From GPUs to host memory.
  std::optional<BytesPerSecond> link_rate = {};
  std::optional<Seconds> interval = {};  ///< Training time between two saves.
  std::optional<double> gpus = {};
  std::optional<MoneyPerSecond> price = {};  ///< Of one GPU.
};
STOKER_API Result<Answer> checkpoint(const CheckpointInputs& inputs);

struct IntervalInputs {
  std::optional<Seconds> save = {};  ///< From the start of a save until it is durable.
  std::optional<Seconds> blocked =
      {};                            ///< How long it stops the training; all of `save` if not set.
  std::optional<Seconds> mtbf = {};  ///< Mean time between failures of the whole job.
  std::optional<double> gpus = {};
  std::optional<Seconds> gpu_mtbf = {};
  std::optional<Seconds> restart = {};   ///< From a failure until training continues.
  std::optional<Seconds> interval = {};  ///< One's own, to compare.
  std::optional<Seconds> step = {};
  std::optional<MoneyPerSecond> price = {};
};
STOKER_API Result<Answer> interval(const IntervalInputs& inputs);

struct EnduranceInputs {
  std::optional<Bytes> size = {};        ///< Written each time, by the host.
  std::optional<PerSecond> writes = {};  ///< How often.
  std::optional<Bytes> tbw = {};         ///< Rated total bytes written by the host, of one drive.
  std::optional<Bytes> capacity = {};
  std::optional<double> drives = {}, write_amplification = {};
  std::optional<Share> used = {};    ///< What SMART says.
  std::optional<Seconds> time = {};  ///< How long to look ahead.
};
STOKER_API Result<Answer> endurance(const EnduranceInputs& inputs);

struct CliffInputs {
  std::optional<Bytes> size = {}, cache = {};
  std::optional<BytesPerSecond> fast_rate = {};   ///< Into the cache.
  std::optional<BytesPerSecond> drain_rate = {};  ///< From the cache to the slow part.
  std::optional<BytesPerSecond> slow_rate = {};   ///< When the cache is full.
};
STOKER_API Result<Answer> cliff(const CliffInputs& inputs);

struct RaidInputs {
  std::optional<double> drives = {};
  std::optional<BytesPerSecond> read_rate = {}, slowest_rate = {}, shared_rate = {};
  std::optional<Bytes> stripe = {}, request = {};
  std::optional<Share> yearly_failures = {};
};
STOKER_API Result<Answer> raid(const RaidInputs& inputs);

struct TargetsInputs {
  std::optional<BytesPerSecond> read_load = {}, write_load = {};  ///< Of all clients.
  std::optional<Bytes> write_size = {};
  std::optional<Seconds> write_time = {};
  std::optional<BytesPerSecond> target_rate = {};
  std::optional<Bytes> stored = {}, target_capacity = {}, dataset = {};
  std::optional<Money> target_price = {};
};
STOKER_API Result<Answer> targets(const TargetsInputs& inputs);

struct ShareInputs {
  std::optional<double> targets = {};
  std::optional<BytesPerSecond> target_rate = {};
  std::optional<double> clients = {}, stripes = {};
  std::optional<BytesPerSecond> nic_rate = {};  ///< Of one client.
};
STOKER_API Result<Answer> share(const ShareInputs& inputs);

struct StallInputs {
  std::optional<double> gpus = {};
  std::optional<MoneyPerSecond> price = {};
  std::optional<Seconds> stall = {};
  std::optional<double> times = {};
  std::optional<PerSecond> stalls = {};
  std::optional<Seconds> time = {};
  std::optional<Share> busy = {}, busy_after = {};
};
STOKER_API Result<Answer> stall(const StallInputs& inputs);

struct RuleInputs {
  std::optional<double> gpus = {};
  std::optional<FlopPerSecond> flops = {};  ///< Of one GPU.
  std::optional<BytesPerSecond> read_rate = {}, needed = {};
};
STOKER_API Result<Answer> rule(const RuleInputs& inputs);

struct PrefetchInputs {
  std::optional<double> depth = {}, batch = {};
  std::optional<Bytes> decoded = {};  ///< A sample as it lies in memory.
  std::optional<double> workers = {}, processes = {};
  std::optional<Bytes> memory = {};
};
STOKER_API Result<Answer> prefetch(const PrefetchInputs& inputs);

struct ObjectsInputs {
  std::optional<Bytes> dataset = {}, object = {}, request = {};
  std::optional<BytesPerSecond> rate = {};
  std::optional<double> epochs = {};
  std::optional<BytesPerSecond> request_rate = {};
  std::optional<PerSecond> prefix_gets = {};
  std::optional<Money> get_price = {}, put_price = {};  ///< Of 1,000 requests.
  std::optional<MoneyPerByte> storage_price = {};       ///< For a month.
  std::optional<MoneyPerByte> transfer_price = {};      ///< Of what leaves.
};
STOKER_API Result<Answer> objects(const ObjectsInputs& inputs);

struct PathInputs {
  std::optional<double> lanes = {};
  std::optional<PerSecond> transfers = {};  ///< Of a lane, one bit each.
  std::optional<double> payload_bits = {}, frame_bits = {};
  std::optional<BytesPerSecond> storage_rate = {}, nic_rate = {}, fabric_rate = {},
                                memory_rate = {};
};
STOKER_API Result<Answer> path(const PathInputs& inputs);

struct IopsInputs {
  std::optional<BytesPerSecond> rate = {};
  std::optional<Bytes> request = {};
  std::optional<Seconds> latency = {};
  std::optional<PerSecond> read_iops = {};
  std::optional<double> files = {}, file_operations = {};
  std::optional<PerSecond> metadata_rate = {};
};
STOKER_API Result<Answer> iops(const IopsInputs& inputs);

struct TrackingInputs {
  std::optional<double> runs = {}, metrics = {}, steps = {}, every = {};
  std::optional<Bytes> point = {};
  std::optional<double> artifacts = {};
  std::optional<Bytes> artifact = {};
  std::optional<Seconds> time = {};
  std::optional<MoneyPerByte> storage_price = {};  ///< For a month.
};
STOKER_API Result<Answer> tracking(const TrackingInputs& inputs);

/// A training cluster. In a workload file, `read_rate` under [cache] is `cache_read_rate`.
struct ClusterInputs {
  std::optional<double> gpus = {}, gpus_per_node = {}, batch = {}, depth = {};
  std::optional<Bytes> sample = {}, decoded = {};
  std::optional<Seconds> step = {};
  std::optional<Bytes> dataset = {};
  std::optional<double> parameters = {};
  std::optional<Bytes> bytes_per_parameter = {};
  std::optional<Seconds> interval = {}, gpu_mtbf = {}, restart = {}, life = {};
  std::optional<BytesPerSecond> link_rate = {};
  std::optional<MoneyPerSecond> price = {};
  std::optional<Bytes> memory_capacity = {};
  std::optional<BytesPerSecond> cache_read_rate = {}, cache_write_rate = {};  ///< Of one drive.
  std::optional<Bytes> cache_capacity = {}, cache_tbw = {};
  std::optional<double> cache_checkpoints = {};  ///< How many of them it keeps.
  std::optional<Seconds> cache_write_time = {};  ///< In which one is written.
  std::optional<Money> cache_drive_price = {};
  std::optional<BytesPerSecond> filesystem_target_rate = {};
  std::optional<Bytes> filesystem_target_capacity = {};
  std::optional<double> filesystem_checkpoints = {};
  std::optional<Seconds> filesystem_write_time = {};
  std::optional<Money> filesystem_target_price = {};
  std::optional<Seconds> objects_fill_time = {};  ///< From the store into the caches.
  std::optional<Bytes> objects_request = {};
  std::optional<BytesPerSecond> objects_request_rate = {};
  std::optional<MoneyPerByte> objects_storage_price = {};  ///< For a month.
  std::optional<Money> objects_get_price = {};             ///< Of 1,000 requests.
};
STOKER_API Result<Answer> cluster(const ClusterInputs& inputs);

/// A field that is written as text.
struct Setting {
  std::string name = {};
  std::string text = {};
  std::string origin = "given";  ///< As in Given.
  std::string source = {};
};

struct Request {
  std::string kind = {};               ///< "read", "checkpoint", ...
  std::vector<Setting> settings = {};  ///< No name twice.
  /// Entries of the catalogue that give values to fields that are not set. The first one that has a
  /// field counts.
  std::vector<std::string> devices = {};
  std::string catalogue = {};  ///< The text of the user's own catalogue: it precedes Stoker's.
  /// The text of a workload file, for fields that `settings` do not set: TOML in which a key under
  /// [cache] is the field cache_KEY, one under [workload] or none is the field itself, and
  /// device = "NAME" takes values from the catalogue.
  std::string workload = {};
};

/// Does what the function of that kind does. `invalid_argument` also for an unknown kind, field or
/// device, and for a text that is not of the field's unit.
STOKER_API Result<Answer> compute(const Request& request);

/// Returns the text of Stoker's catalogue of devices, devices.toml.
STOKER_API std::string_view device_catalogue() noexcept;

}  // namespace stoker::plan
