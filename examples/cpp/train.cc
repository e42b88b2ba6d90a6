/// \file
/// A training that may be killed at any moment: train SHARDS CHECKPOINTS LOSSES.
///
/// A softmax regression on how often each byte value comes in a sample. Run it again after a kill:
/// it continues from the last committed checkpoint, with the samples and the losses of an unbroken
/// run. So does examples/train.py, from the checkpoints of this program: both compute the same, to
/// the last bit.
#include <stoker/checkpoint.h>
#include <stoker/loader.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr std::size_t kClasses = 3;
constexpr std::size_t kFeatures = 256;

using Features = std::array<double, kFeatures>;
using Scores = std::array<double, kClasses>;

struct Model {
  std::vector<double> weights = std::vector<double>(kFeatures * kClasses);
  std::vector<double> bias = std::vector<double>(kClasses);

  /// The names are those of the NumPy arrays in train.py.
  stoker::Tree tree() {
    return {{"weights", stoker::tensor(weights, {kFeatures, kClasses})},
            {"bias", stoker::tensor(bias)}};
  }
};

/// How often each byte value comes in a sample.
Features features(std::span<const std::byte> sample) {
  std::array<std::size_t, kFeatures> counts{};
  for (const std::byte byte : sample) ++counts[std::to_integer<std::size_t>(byte)];
  Features x;
  for (std::size_t i = 0; i < kFeatures; ++i)
    x[i] = static_cast<double>(counts[i]) / static_cast<double>(sample.size()) * kFeatures;
  return x;
}

/// One step of gradient descent; returns the loss before it.
double train_step(Model& model, const std::vector<Features>& x,
                  std::span<const std::int64_t> labels) {
  const auto count = static_cast<double>(x.size());
  std::vector<Scores> likely(x.size());
  double loss = 0;
  for (std::size_t n = 0; n < x.size(); ++n) {
    Scores& scores = likely[n];
    for (std::size_t i = 0; i < kFeatures; ++i)
      for (std::size_t k = 0; k < kClasses; ++k)
        scores[k] += x[n][i] * model.weights[i * kClasses + k];
    for (std::size_t k = 0; k < kClasses; ++k) scores[k] += model.bias[k];
    const double most = *std::ranges::max_element(scores);
    double sum = 0;
    for (double& score : scores) sum += score = std::exp(score - most);
    for (double& score : scores) score /= sum;
    double& own = scores[static_cast<std::size_t>(labels[n])];
    loss -= std::log(own);
    own -= 1;
  }
  for (std::size_t i = 0; i < kFeatures * kClasses; ++i) {
    double gradient = 0;
    for (std::size_t n = 0; n < x.size(); ++n)
      gradient += x[n][i / kClasses] * likely[n][i % kClasses];
    model.weights[i] -= 0.01 * gradient / count;
  }
  for (std::size_t k = 0; k < kClasses; ++k) {
    double gradient = 0;
    for (const Scores& one : likely) gradient += one[k];
    model.bias[k] -= 0.01 * gradient / count;
  }
  return loss / count;
}

struct Arguments {
  std::string shards, checkpoints, losses;
  std::uint64_t steps = 60;
  std::uint64_t die_at = 0;
};

std::optional<Arguments> parse(int argc, char** argv) {
  std::vector<std::string> names;
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if ((word == "--steps" || word == "--die-at") && i + 1 < argc)
      (word == "--steps" ? arguments.steps : arguments.die_at) =
          std::strtoull(argv[++i], nullptr, 10);
    else
      names.emplace_back(word);
  }
  if (names.size() != 3) return std::nullopt;
  arguments.shards = names[0];
  arguments.checkpoints = names[1];
  arguments.losses = names[2];
  return arguments;
}

/// What was logged after the last checkpoint comes again.
std::FILE* open_losses(const std::string& path, std::uint64_t done) {
  std::ifstream in(path);
  std::string kept;
  std::string line;
  for (std::uint64_t i = 0; i < done && std::getline(in, line); ++i) kept += line + "\n";
  std::FILE* const out = std::fopen(path.c_str(), "w");
  if (out != nullptr) std::fputs(kept.c_str(), out);
  return out;
}

stoker::Status train(const Arguments& arguments) {
  Model model;
  STOKER_ASSIGN(stoker::Loader loader,
                stoker::Loader::open({.data = arguments.shards,
                                      .batch_size = 6,
                                      .seed = 7,
                                      .epochs = std::nullopt,
                                      .fields = {{"jpg", stoker::FieldKind::bytes},
                                                 {"cls", stoker::FieldKind::int64}}}));
  STOKER_ASSIGN(const auto saver,
                stoker::Checkpointer::open({.directory = arguments.checkpoints, .keep_last = 2}));
  stoker::Tree trees = {{"model", model.tree()}};
  STOKER_ASSIGN(const auto done, saver->restore(trees, {.loader = &loader}));
  if (done)
    std::printf("restored step %llu\n", static_cast<unsigned long long>(done->step));
  else
    std::puts("from the beginning");
  std::fflush(stdout);
  std::FILE* const losses = open_losses(arguments.losses, done ? done->step : 0);
  if (losses == nullptr) return stoker::Status::from_errno(errno, "open", arguments.losses);
  for (std::uint64_t step = loader.step(); step < arguments.steps;) {
    STOKER_ASSIGN(const auto batch, loader.next());
    STOKER_ASSIGN(const auto labels, batch->values<std::int64_t>("cls"));
    std::vector<Features> x;
    for (const auto sample : batch->find("jpg")->views) x.push_back(features(sample));
    const double loss = train_step(model, x, labels);
    step = loader.step();
    std::fprintf(losses, "%llu %.13a\n", static_cast<unsigned long long>(step), loss);
    std::fflush(losses);
    if (saver->due(step, {.every_steps = 5}))
      STOKER_TRY(
          saver->save(step, trees, {.loader = &loader, .reference = {{"loss", loss}}}).status());
    if (step == arguments.die_at) ::kill(::getpid(), SIGKILL);
  }
  std::fclose(losses);
  return saver->close();
}

}  // namespace

int main(int argc, char** argv) {
  const std::optional<Arguments> arguments = parse(argc, argv);
  if (!arguments) {
    std::fputs("usage: train SHARDS CHECKPOINTS LOSSES [--steps N] [--die-at N]\n", stderr);
    return 2;
  }
  const stoker::Status status = train(*arguments);
  if (status.ok()) return 0;
  std::fprintf(stderr, "train: %.*s\n", static_cast<int>(status.message().size()),
               status.message().data());
  return 1;
}
