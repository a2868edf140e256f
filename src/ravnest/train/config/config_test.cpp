#include "ravnest/train/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ravnest/base/file.h"
#include "ravnest/base/testing/folders.h"

namespace ravnest::train {
namespace {

namespace fs = std::filesystem;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr std::string_view kWhole = R"(epochs = 10
batch_size = 32
seed = 42
loss = "CrossEntropyLoss"
schedule = "sync"
update_frequency = 2
microbatches = 4
val_freq = 3
save = true
stop_at_nan = true
clip_value = 0.5
clip_norm = 2
compression = "topk:0.01"
reduce_factor = 50
average = "drain"
average_optim = true
recompute = true
threads = 8
device = "cuda:1"
loss_file = "out/losses.txt"

[optimizer]
name = "AdamW"
lr = 1e-3
betas = [0.9, 0.99]
amsgrad = true

[lr_schedule]
name = "MultiStepLR"
milestones = [1, 2]
gamma = 1
every = "update"

[outer]
name = "nesterov"
momentum = 0.8

[data]
format = "npy"
inputs = ["a.npy", "/b.npy"]
targets = "y.npy"
shuffle = true
shape = [1, 8, 8]
scale = 0.0625
one_hot = 10
inputs_dtype = "float64"
rows = [0, 1078]
shard = true

[validation]
format = "digits"
inputs = "digits.csv.gz"
)";

// Lines 1 to 6; more is put in front of [optimizer] or at the end, which is within [data].
std::string small(std::string_view top, std::string_view data = "") {
  return text(top, "\n[optimizer]\nname = \"SGD\"\n[data]\nformat = \"digits\"\ninputs = \"d.csv\"\n", data);
}

Result<TrainConfig> decoded(std::string_view toml) { return decode_train_config(toml, "runs/train.toml"); }

void expect_refused(std::string_view toml, std::string_view sentence) {
  const Result<TrainConfig> config = decoded(toml);
  ASSERT_FALSE(config.ok()) << toml;
  EXPECT_EQ(config.status(), invalid("runs/train.toml", sentence)) << toml;
}

TEST(TrainConfig, EveryKeyArrives) {
  const Result<TrainConfig> config = decoded(kWhole);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->epochs, 10);
  EXPECT_EQ(config->batch_size, 32);
  EXPECT_EQ(config->seed, 42U);
  EXPECT_EQ(config->loss, LossKind::kCrossEntropy);
  EXPECT_EQ(config->schedule, "sync");
  EXPECT_EQ(config->update_frequency, 2);
  EXPECT_EQ(config->reduce_factor, 50);
  EXPECT_EQ(config->average, "drain");
  EXPECT_TRUE(config->average_optim);
  ASSERT_TRUE(config->outer.has_value());
  EXPECT_EQ(config->outer->momentum, 0.8);
  EXPECT_EQ(config->outer->rate, 0.7);
  EXPECT_EQ(config->microbatches, 4);
  EXPECT_EQ(config->val_freq, 3);
  EXPECT_TRUE(config->save);
  EXPECT_TRUE(config->stop_at_nan);
  EXPECT_EQ(config->clip_value, 0.5);
  EXPECT_EQ(config->clip_norm, 2);
  EXPECT_EQ(config->compression, (codec::Codec{codec::CodecKind::kTopK, 0.01}));
  EXPECT_TRUE(config->recompute);
  EXPECT_EQ(config->threads, 8);
  EXPECT_EQ(config->device, "cuda:1");
  EXPECT_EQ(config->loss_file, "out/losses.txt");
  EXPECT_EQ(config->optimizer.name, "AdamW");
  EXPECT_EQ(config->optimizer.options,
            (optim::Options{{"lr", 1e-3}, {"betas", std::vector{0.9, 0.99}}, {"amsgrad", true}}));
  ASSERT_TRUE(config->lr_schedule.has_value());
  EXPECT_EQ(config->lr_schedule->name, "MultiStepLR");
  EXPECT_EQ(config->lr_schedule->every, Every::kUpdate);
  EXPECT_EQ(config->lr_schedule->options,
            (optim::Options{{"milestones", std::vector{1.0, 2.0}}, {"gamma", std::int64_t{1}}}));
  const data::DataOptions& data = config->data.options;
  EXPECT_EQ(data.format, "npy");
  EXPECT_EQ(data.inputs, (std::vector<fs::path>{"runs/a.npy", "/b.npy"})) << "relative to the file";
  EXPECT_EQ(data.targets, std::vector<fs::path>{"runs/y.npy"});
  EXPECT_TRUE(config->data.shuffle);
  EXPECT_EQ(data.shape, (std::vector<std::int64_t>{1, 8, 8}));
  EXPECT_EQ(data.scale, 0.0625);
  EXPECT_EQ(data.one_hot, 10);
  EXPECT_EQ(data.inputs_dtype, "float64");
  EXPECT_EQ(data.first, 0);
  EXPECT_EQ(data.last, 1078);
  EXPECT_EQ(config->data.shard, true);
  ASSERT_TRUE(config->validation.has_value());
  EXPECT_EQ(config->validation->options.inputs, std::vector<fs::path>{"runs/digits.csv.gz"});
}

TEST(TrainConfig, DefaultsAreThoseOfNodeAndTrainer) {
  const Result<TrainConfig> config = decoded(small("loss = \"mse\""));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->epochs, 1);
  EXPECT_EQ(config->batch_size, 64);
  EXPECT_EQ(config->seed, 0U);
  EXPECT_EQ(config->schedule, "async");
  EXPECT_EQ(config->update_frequency, 1);
  EXPECT_EQ(config->reduce_factor, 0);
  EXPECT_EQ(config->average, "overlap");
  EXPECT_FALSE(config->average_optim);
  EXPECT_FALSE(config->outer.has_value());
  EXPECT_EQ(config->microbatches, 1);
  EXPECT_EQ(config->val_freq, 1);
  EXPECT_FALSE(config->save);
  EXPECT_FALSE(config->stop_at_nan);
  EXPECT_EQ(config->clip_value, 0);
  EXPECT_EQ(config->clip_norm, 0);
  EXPECT_EQ(config->compression, codec::Codec());
  EXPECT_FALSE(config->recompute);
  EXPECT_EQ(config->threads, 0);
  EXPECT_EQ(config->device, "cpu");
  EXPECT_EQ(config->loss_file, "losses.txt");
  EXPECT_TRUE(config->optimizer.options.empty());
  EXPECT_FALSE(config->lr_schedule.has_value());
  EXPECT_FALSE(config->data.shuffle);
  EXPECT_EQ(config->data.shard, std::nullopt);
  EXPECT_EQ(config->data.options.scale, 1);
  EXPECT_FALSE(config->data.options.first.has_value());
  EXPECT_FALSE(config->validation.has_value());
}

TEST(TrainConfig, CompressionMayBeOnOrOff) {
  EXPECT_EQ(decoded(small("loss = \"mse\"\ncompression = true"))->compression.kind, codec::CodecKind::kFp16);
  EXPECT_EQ(decoded(small("loss = \"mse\"\ncompression = false"))->compression.kind, codec::CodecKind::kNone);
}

TEST(TrainConfig, UnknownKeysAreRefusedWithTheNearestName) {
  expect_refused(small("loss = \"mse\"\nepoch = 3"), ", line 2: there is no key epoch; did you mean epochs?");
  expect_refused(small("los = \"mse\""), ", line 1: there is no key los; did you mean loss?");
  expect_refused(small("loss = \"mse\"", "scael = 2"), ", line 7: there is no key data.scael; did you mean scale?");
  expect_refused(small("loss = \"mse\"", "xyz = 2"),
                 ", line 7: there is no key data.xyz; there are format, inputs, targets, shuffle, shape, scale, "
                 "one_hot, inputs_dtype, rows, shard");
  expect_refused(small("loss = \"mse\"", "[validations]"),
                 ", line 7: there is no key validations; did you mean validation?");
}

TEST(TrainConfig, WrongKindsAndRangesNameLineKeyAndWhatIsAllowed) {
  const std::string loss = "loss = \"mse\"\n";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"epochs = 0", "epochs has to be a whole number, at least 1, not 0"},
      {"epochs = 1.5", "epochs has to be a whole number, at least 1, not 1.5"},
      {"epochs = \"3\"", "epochs has to be a whole number, at least 1, not \"3\""},
      {"seed = -1", "seed has to be a whole number, at least 0, not -1"},
      {"microbatches = 65", "microbatches has to be a whole number from 1 to 64, not 65"},
      {"threads = 5000", "threads has to be a whole number from 0 to 1024, not 5000"},
      {"save = 1", "save has to be true or false, not 1"},
      {"save = 2020-01-01", "save has to be true or false, not a date or time"},
      {"schedule = \"asnyc\"",
       "schedule has to be \"async\", \"sync\" or \"gpipe\", not \"asnyc\"; did you mean async?"},
      {"schedule = []", "schedule has to be \"async\", \"sync\" or \"gpipe\", not a list"},
      {"loss_file = \"\"", "loss_file has to be a word in quotes, not \"\""},
      {"device = \"gpu\"", "device: there is no device \"gpu\"; there are \"cpu\", \"cuda\" and \"cuda:1\" and so on"},
      {"lr_schedule = 3", "lr_schedule has to be a table, [lr_schedule], not 3"}};
  for (const auto& [line, sentence] : cases) expect_refused(small(loss + line), text(", line 2: ", sentence));
  EXPECT_THAT(decoded(small(loss + "compression = \"zip\"")).status().message(),
              StartsWith("runs/train.toml, line 2: compression: "));
  EXPECT_THAT(decoded(small("loss = \"msee\"")).status().message(),
              HasSubstr("line 1: loss: there is no loss \"msee\""));
}

TEST(TrainConfig, DataThatMakeNoSenseAreRefused) {
  const std::string loss = "loss = \"mse\"";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"rows = [5, 5]", "data.rows: has to be the first row and the one after the last, such as [0, 1000]"},
      {"rows = [5]", "data.rows: has to be the first row and the one after the last, such as [0, 1000]"},
      {"rows = [-1, 5]", "data.rows[0] has to be a whole number from 0 to 1099511627776, not -1"},
      {"shape = 8", "data.shape has to be a list of whole numbers, not 8"},
      {"shape = [8, 0]", "data.shape[1] has to be a whole number from 1 to 1099511627776, not 0"},
      {"scale = nan", "data.scale has to be a number, not nan"},
      {"targets = \"y.npy\"", "data.targets: files of format \"digits\" have inputs and targets; leave it out"}};
  for (const auto& [line, sentence] : cases) expect_refused(small(loss, line), text(", line 7: ", sentence));
  expect_refused(small(loss, "[validation]\nformat = \"digits\"\ninputs = \"d.csv\"\nshard = false"),
                 ", line 10: validation.shard: every cluster validates on all of these data; leave it out");
  const std::string head = "loss = \"mse\"\n[optimizer]\nname = \"SGD\"\n[data]\n";
  expect_refused(head + "format = \"np\"\ninputs = \"x\"",
                 ", line 5: data.format has to be \"digits\", \"idx\", \"cifar10\", \"npy\" or \"safetensors\", not "
                 "\"np\"; did you mean npy?");
  expect_refused(head + "format = \"npy\"\ninputs = []\ntargets = \"y\"",
                 ", line 6: data.inputs has to be one word in quotes, or a list of at least one, not a list");
  expect_refused(head + "format = \"npy\"\ninputs = [\"x\", 3]\ntargets = \"y\"",
                 ", line 6: data.inputs[1] has to be a word in quotes, not 3");
}

TEST(TrainConfig, WhatIsMissingIsNamed) {
  const std::string optimizer = "[optimizer]\nname = \"SGD\"\n";
  EXPECT_THAT(decoded("").status().message(), StartsWith("runs/train.toml: loss is missing: one of mse, l1"));
  EXPECT_THAT(decoded("loss = \"mse\"").status().message(), StartsWith("runs/train.toml: [optimizer] is missing: "));
  EXPECT_THAT(decoded("loss = \"mse\"\n" + optimizer).status().message(),
              StartsWith("runs/train.toml: [data] is missing"));
  EXPECT_THAT(decoded("loss = \"mse\"\n[optimizer]\nlr = 1").status().message(),
              StartsWith("runs/train.toml, line 2: optimizer.name is missing: "));
  EXPECT_THAT(decoded("loss = \"mse\"\n" + optimizer + "[data]\ninputs = \"x\"").status().message(),
              StartsWith("runs/train.toml, line 4: data.format is missing: one of digits, idx"));
  expect_refused("loss = \"mse\"\n" + optimizer + "[data]\nformat = \"npy\"\ninputs = \"x\"",
                 ", line 4: data.targets is missing: a file, or a list of files");
}

TEST(TrainConfig, OptionsOfAnOptimizerAreNumbersFlagsAndWords) {
  const std::string data = "\n[data]\nformat = \"digits\"\ninputs = \"d.csv\"";
  expect_refused("loss = \"mse\"\n[optimizer]\nname = \"SGD\"\nlr = 2020-01-01" + data,
                 ", line 4: optimizer.lr has to be true or false, a number, a word in quotes or a list of numbers, not "
                 "a date or time");
  EXPECT_EQ(decoded("loss = \"mse\"\n[optimizer]\nname = \"SGD\"\nbetas = [0.9, \"x\"]").status().code(),
            Code::kInvalid);
}

TEST(TrainConfig, RangesAreSaidAsPeopleWriteThem) {
  const std::string outer = "[outer]\nname = \"nesterov\"\n";
  const auto with = [&](const std::string& line) { return small("loss = \"mse\"", outer + line); };
  expect_refused(with("momentum = 1"), ", line 9: outer.momentum has to be from 0 to below 1, not 1");
  expect_refused(with("rate = -0.5"), ", line 9: outer.rate has to be at least 0, not -0.5");
  expect_refused(with("rate = true"), ", line 9: outer.rate has to be at least 0, not true");
}

TEST(TrainConfig, AllThatIsWrongIsSaidAtOnceALineEach) {
  EXPECT_EQ(
      decoded("epochs = 0\nbatch_size = \"64\"\nmicrobatches = 70\nsed = 1\n"
              "[data]\nformat = \"npy\"\ninputs = 3\ntargets = \"y\"\nscale = true\nshape = [0, 8, -1]")
          .status()
          .message(),
      "runs/train.toml, line 1: epochs has to be a whole number, at least 1, not 0\n"
      "runs/train.toml, line 2: batch_size has to be a whole number from 1 to 1099511627776, not \"64\"\n"
      "runs/train.toml, line 4: there is no key sed; did you mean seed?\n"
      "runs/train.toml, line 7: data.inputs has to be a word in quotes, not 3\n"
      "runs/train.toml, line 9: data.scale has to be a number, not true\n"
      "runs/train.toml, line 10: data.shape[0] has to be a whole number from 1 to 1099511627776, not 0\n"
      "runs/train.toml, line 10: data.shape[2] has to be a whole number from 1 to 1099511627776, not -1\n"
      "runs/train.toml: loss is missing: one of mse, l1, smooth_l1, huber, cross_entropy, nll, bce, "
      "bce_with_logits, kl_div\n"
      "runs/train.toml: [optimizer] is missing: a table with the optimizer's name and its options, such as name = "
      "\"Adam\"");
}

TEST(TrainConfig, OfVeryManyThingsThatAreWrongTheFirstAreSaid) {
  std::string keys;
  for (int i = 0; i < 100; ++i) keys += text("unheard_of_", i, " = 1\n");
  const std::string message = decoded(small(keys + "loss = \"mse\"")).status().message();
  EXPECT_EQ(std::ranges::count(message, '\n'), 20);
  EXPECT_THAT(message, EndsWith("\nruns/train.toml: and 80 more"));
}

TEST(TrainConfig, WhatElseIsWrongIsNamedBesideUnlessItFollows) {
  const FurtherCheck further = [](const TrainConfig& config, Complaints& complaints) {
    config.optimizer.lines.add_to(complaints, invalid("SGD: lr has to be at least 0\nSGD: it has no option lir"));
  };
  const auto told = [&](std::string_view toml) {
    return decode_train_config(toml, "train.toml", further).status().message();
  };
  const std::string data = "[data]\nformat = \"digits\"\ninputs = \"d.csv\"\n";
  const std::string optimizer = "loss = \"mse\"\n[optimizer]\nname = \"SGD\"\nlr = ";
  EXPECT_EQ(told("epochs = -1\n" + optimizer + "-1\n" + data + "shuffle = 1"),
            "train.toml, line 1: epochs has to be a whole number, at least 1, not -1\n"
            "train.toml, line 3: [optimizer]: SGD: it has no option lir\n"
            "train.toml, line 5: [optimizer]: SGD: lr has to be at least 0\n"
            "train.toml, line 9: data.shuffle has to be true or false, not 1");
  EXPECT_THAT(told("epochs = -1\n" + optimizer + "2020-01-01\n" + data), Not(HasSubstr("SGD: ")));
  EXPECT_EQ(told(optimizer + "-1\n" + data), "") << "left to whoever makes it";
}

TEST(TrainConfig, WhatIsFoundWrongLaterNamesTheLineToo) {
  const auto config = decoded(kWhole);
  ASSERT_TRUE(config.ok()) << config.status();
  const auto said = [](const Lines& lines, std::string_view message) { return lines.at(invalid(message)).message(); };
  EXPECT_EQ(said(config->optimizer.lines, "AdamW: lr has to be at least 0, not -1"),
            "runs/train.toml, line 24: [optimizer]: AdamW: lr has to be at least 0, not -1");
  EXPECT_EQ(said(config->optimizer.lines, "AdamW: beta has to be"),
            "runs/train.toml, line 22: [optimizer]: AdamW: beta has to be");
  EXPECT_EQ(said(config->lr_schedule->lines, "MultiStepLR: gamma is wrong, and so are milestones"),
            "runs/train.toml, line 31: [lr_schedule]: MultiStepLR: gamma is wrong, and so are milestones");
  EXPECT_EQ(said(config->data.lines, "rows [0, 1078] were asked for, and inputs.npy has 3"),
            "runs/train.toml, line 47: [data]: rows [0, 1078] were asked for, and inputs.npy has 3");
  EXPECT_EQ(config->data.lines.at(not_found("no rows")), not_found("no rows"));
  EXPECT_EQ(Lines().at(invalid("lr")), invalid("lr"));
}

TEST(TrainConfig, TheStrategySaysWhatIsComputedIn) {
  const auto config = decoded(small("loss = 'mse'\n[strategy]\nprecision = 'bf16'\nfloat32 = 'tf32'"));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->strategy->precision, "bf16");
  EXPECT_EQ(config->strategy->float32, "tf32");
  EXPECT_EQ(StrategyConfig().precision, "float32");
  EXPECT_THAT(decoded(small("loss = 'mse'\n[strategy]\nprecision = 'half'")).status().message(),
              AllOf(HasSubstr("strategy.precision"), HasSubstr("float32"), HasSubstr("bf16"), HasSubstr("fp16")));
  EXPECT_THAT(decoded(small("loss = 'mse'\n[strategy]\nfloat32 = 'fast'")).status().message(),
              AllOf(HasSubstr("exact"), HasSubstr("tf32")));
}

TEST(TrainConfig, TextThatIsNotTomlNamesItsLine) {
  EXPECT_THAT(decoded("epochs = 1\nseed = = 2").status().message(), StartsWith("runs/train.toml, line 2, column 8: "));
  for (const std::string_view header : {"[=data]", "[.data]", "[\x12]", "[[+]]"})
    EXPECT_THAT(decoded(text("epochs = 1\n", header)).status().message(), StartsWith("runs/train.toml, line 2, "));
  EXPECT_EQ(decoded("epochs = 1\nepochs = 2").status().code(), Code::kInvalid) << "a key that stands twice";
  EXPECT_EQ(decoded("x = " + std::string(10'000, '[')).status().code(), Code::kInvalid);
  for (const std::string_view entry : {"gr\xc3\xb6\xc3\x9f = 2", "seed = 2\xd1\x9c", "seed = 10b6'\xcd\x89'"})
    EXPECT_THAT(decoded(text("epochs = 1\n", entry)).status().message(), StartsWith("runs/train.toml, line 2, "));
  EXPECT_EQ(decoded("x = \"\xff\"").status().code(), Code::kInvalid);
}

TEST(TrainConfig, LettersOfAllLanguagesMayStandInQuotesAndComments) {
  const auto config =
      decoded(small("\xef\xbb\xbf# gr\xc3\xb6\xc3\x9f"
                    "er \"\nloss = 'mse'\nloss_file = \"\xc3\xa4\\\"\xc3\xb6.txt\" # \xc3\xbc"));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->loss_file, "\xc3\xa4\"\xc3\xb6.txt");
}

TEST(TrainConfig, FilesAreReadFromTheDisk) {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path() / "train.toml";
  EXPECT_EQ(read_train_config(path).status().code(), Code::kNotFound);
  ASSERT_EQ(write_file_atomically(path, kWhole), Status());
  const Result<TrainConfig> config = read_train_config(path);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->data.options.inputs.front(), folder.path() / "a.npy");
}

}  // namespace
}  // namespace ravnest::train
