#include "ravnest/archive/pickle/pickle_read.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ravnest/archive/pickle/pickle.h"
#include "ravnest/archive/testing/files.h"

namespace ravnest::archive {
namespace {

using namespace std::string_literals;
using testing::expect_failure;

const PickleGlobals kAllowed = {"torch.Size", "torch._utils._rebuild_tensor_v2"};

// On memory of its own size, so that a look beyond the end is seen.
struct Program {
  explicit Program(std::string_view text) : bytes(testing::slice(text)), pickle(Pickle::read(bytes.bytes, kAllowed)) {}
  Slice bytes;
  Result<Pickle> pickle;

  const PickleValue& root() const { return pickle.value().root(); }
};

void expect_refusal(std::string_view program, Code code, std::string_view words) {
  expect_failure(Program(program).pickle, code, words);
}

TEST(PickleRead, WhatOurWriterWroteComesBack) {
  PickleWriter writer;
  writer.begin_dict();
  writer.string("list");
  writer.begin_list();
  writer.integer(-1);
  writer.integer(std::int64_t{1} << 40);
  writer.number(1.5);
  writer.boolean(true);
  writer.none();
  writer.end_list();
  writer.string("tuple");
  writer.begin_tuple();
  writer.string("x");
  writer.end_tuple();
  writer.end_dict();
  const auto bytes = writer.finish();
  const Program program(as_string_view(bytes));
  const PickleValue* list = find(program.root(), "list");
  ASSERT_NE(list, nullptr);
  ASSERT_EQ(list->items.size(), 5U);
  EXPECT_EQ(list->items[0]->integer, -1);
  EXPECT_EQ(list->items[1]->integer, std::int64_t{1} << 40);
  EXPECT_EQ(list->items[2]->number, 1.5);
  EXPECT_EQ(list->items[3]->kind, PickleKind::kBoolean);
  EXPECT_EQ(list->items[3]->integer, 1);
  EXPECT_EQ(list->items[4]->kind, PickleKind::kNone);
  ASSERT_EQ(find(program.root(), "tuple")->items.size(), 1U);
  EXPECT_EQ(find(program.root(), "tuple")->items[0]->text, "x");
  EXPECT_EQ(find(program.root(), "nothing"), nullptr);
}

// As Python wrote it: pickle.dumps([1, 300, -2, 2**33, -(2**33), b"b", (1, 2, 3)], protocol=4)
TEST(PickleRead, InstructionsOfProtocolFourAreRead) {
  const Program program(
      "\x80\x04\x95\x29\0\0\0\0\0\0\0]\x94(K\1M\x2c\1J\xfe\xff\xff\xff\x8a\5\0\0\0\0\2\x8a\5\0\0\0\0\xfe"
      "C\1b\x94K\1K\2K\3\x87\x94"
      "e."s);
  ASSERT_TRUE(program.pickle.ok()) << program.pickle.status();
  std::vector<std::int64_t> numbers;
  for (int i = 0; i < 5; ++i) numbers.push_back(program.root().items[i]->integer);
  EXPECT_THAT(numbers, ::testing::ElementsAre(1, 300, -2, std::int64_t{1} << 33, -(std::int64_t{1} << 33)));
  EXPECT_EQ(program.root().items[5]->kind, PickleKind::kBytes);
  EXPECT_EQ(program.root().items[6]->items.size(), 3U);
}

TEST(PickleRead, ACallStaysANameWithItsArguments) {
  const Program program(
      "\x80\x02"
      "ctorch\nSize\n(K\1K\2t\x85R."s);
  ASSERT_TRUE(program.pickle.ok()) << program.pickle.status();
  EXPECT_EQ(described(program.root()), "a call of torch.Size");
  EXPECT_EQ(program.root().items[1]->items[0]->items.size(), 2U);
  EXPECT_EQ(described(Program("\x80\4\x8c\5torch\x8c\4Size\x93."s).root()), "torch.Size");
}

TEST(PickleRead, ValuesPutAsideStandInSeveralPlaces) {
  const Program program("\x80\2](X\1\0\0\0aq\0h\0e."s);
  ASSERT_TRUE(program.pickle.ok()) << program.pickle.status();
  EXPECT_EQ(program.root().items[0], program.root().items[1]);
}

TEST(PickleRead, AttributesOfADictAreLeftOut) {
  const Program program(
      "\x80\2"
      "ccollections\nOrderedDict\n)R}X\1\0\0\0aK\1sb."s);
  ASSERT_TRUE(program.pickle.ok()) << program.pickle.status();
  EXPECT_EQ(program.root().kind, PickleKind::kDict);
  EXPECT_TRUE(program.root().items.empty());
  expect_refusal("\x80\2]}b."s, Code::kUnsupported, "gives attributes to a list");
}

TEST(PickleRead, AListThatContainsItselfIsNoTrouble) {
  const Program program("\x80\2]q\0h\0a."s);
  ASSERT_TRUE(program.pickle.ok()) << program.pickle.status();
  EXPECT_EQ(program.root().items[0], &program.root());
}

TEST(PickleRead, DepthIsNoTrouble) {
  const Program program("\x80\2" + std::string(100'000, ']') + std::string(99'999, 'a') + ".");
  ASSERT_TRUE(program.pickle.ok()) << program.pickle.status();
  EXPECT_EQ(program.root().items[0]->kind, PickleKind::kList);
}

// As os.system("...") stands in a pickle: in both spellings, and as what is instantiated.
TEST(PickleRead, OtherNamesAreRefusedByName) {
  expect_refusal(
      "\x80\2"
      "cposix\nsystem\nX\4\0\0\0true\x85R."s,
      Code::kUnsupported, "at byte 2, names posix.system, which is not among the plain data that is read");
  expect_refusal("\x80\4\x8c\2os\x8c\6system\x93."s, Code::kUnsupported, "os.system");
  expect_refusal(
      "\x80\2"
      "cbuiltins\neval\n."s,
      Code::kUnsupported, "builtins.eval");
  expect_refusal(
      "\x80\2"
      "ctorch\n\x1b[31m\n."s,
      Code::kUnsupported, "names torch.?[31m");
  expect_refusal("\x80\2(ios\nsystem\n."s, Code::kUnsupported, "the instruction 105");
  expect_refusal("\x80\2)\x81."s, Code::kUnsupported, "the instruction 129");
  expect_refusal("\x80\2\x82\1."s, Code::kUnsupported, "the instruction 130");
}

TEST(PickleRead, OnlyNamesAreCalled) {
  expect_refusal("\x80\2])R."s, Code::kCorrupt, "calls a list");
  expect_refusal(
      "\x80\2"
      "ctorch\nSize\n]R."s,
      Code::kCorrupt, "calls torch.Size with a list");
  expect_refusal(
      "\x80\2"
      "ctorch\nSize\n)R)R."s,
      Code::kCorrupt, "calls a call of torch.Size");
  expect_refusal(
      "\x80\2"
      "ccollections\nOrderedDict\n]\x85R."s,
      Code::kUnsupported, "OrderedDict from a list");
}

TEST(PickleRead, LengthsThatLieAreFound) {
  expect_refusal(
      "\x80\2X\xff\xff\xff\x7f"
      "a."s,
      Code::kCorrupt, "cut short");
  expect_refusal("\x80\4\x8d\xff\xff\xff\xff\xff\xff\xff\xff."s, Code::kCorrupt, "cut short");
  expect_refusal("\x80\4\x95\xff\xff\xff\xff\xff\xff\xff\xffN."s, Code::kCorrupt, "cut short");
  expect_refusal("\x80\2\x8a\x09\0\0\0\0\0\0\0\0\1."s, Code::kUnsupported, "an integer of 9 bytes");
  expect_refusal("\x80\2\x8b\xff\xff\xff\x7f."s, Code::kUnsupported, "the instruction 139");
  expect_refusal(
      "\x80\2"
      "c" +
          std::string(1000, 'x') + "\n",
      Code::kCorrupt, "a name of more than 256 bytes");
  expect_refusal(
      "\x80\2"
      "ctorch"s,
      Code::kCorrupt, "cut short");
}

TEST(PickleRead, NumbersOfValuesPutAsideAreCounted) {
  expect_refusal("\x80\2Nr\xff\xff\xff\xff."s, Code::kCorrupt, "as number 4294967295, where 0 are");
  expect_refusal("\x80\2h\1."s, Code::kCorrupt, "value 1 of 0");
  expect_refusal("\x80\2j\xff\xff\xff\xff."s, Code::kCorrupt, "value 4294967295 of 0");
}

TEST(PickleRead, InstructionsThatContradictEachOtherAreFound) {
  expect_refusal("", Code::kCorrupt, "cut short");
  expect_refusal("hello", Code::kCorrupt, "does not begin");
  expect_refusal("\x80\x09N."s, Code::kUnsupported, "protocol 9");
  expect_refusal("\x80\2."s, Code::kCorrupt, "0 values");
  expect_refusal("\x80\2NN."s, Code::kCorrupt, "2 values");
  expect_refusal("\x80\2(N."s, Code::kCorrupt, "in place of one");
  expect_refusal("\x80\2N.N"s, Code::kCorrupt, "before its last 1 bytes");
  expect_refusal("\x80\2Nt."s, Code::kCorrupt, "a group that has not begun");
  expect_refusal("\x80\2(N\x86."s, Code::kCorrupt, "values where there are none");
  expect_refusal("\x80\2N(\x85."s, Code::kCorrupt, "values where there are none");
  expect_refusal("\x80\2}(Nu."s, Code::kCorrupt, "a key without a value");
  expect_refusal("\x80\2NNa."s, Code::kCorrupt, "adds items to None");
  expect_refusal("\x80\2NN\x93."s, Code::kCorrupt, "what is no string");
  expect_refusal("\x80\2(q\0."s, Code::kCorrupt, "a value where there is none");
}

TEST(PickleRead, InstructionsAreCounted) {
  const Slice nones = testing::slice("\x80\2" + std::string(100, 'N') + "t.");
  const PickleLimits few_values = {.instructions = 1000, .values = 99};
  expect_failure(Pickle::read(nones.bytes, kAllowed, few_values), Code::kUnsupported, "more than 99 values");
  const Slice repeated = testing::slice("\x80\2(Nq\0h\0h\0t."s);
  const PickleLimits few_instructions = {.instructions = 5, .values = 10};
  expect_failure(Pickle::read(repeated.bytes, kAllowed, few_instructions), Code::kUnsupported,
                 "more than 5 instructions");
}

}  // namespace
}  // namespace ravnest::archive
