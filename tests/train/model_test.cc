// Configurations, names, initial numbers; models as files.
#include "locant/train/model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <sstream>

#include "locant/checkpoint/safetensors.h"
#include "locant/position/registry.h"
#include "tests/checkpoint/temporary_folder.h"

namespace locant {
namespace {

ModelConfig small(const std::string& scheme = "nope") {
  return {.vocabulary = 11, .layers = 2, .width = 16, .heads = 2, .feed_forward = 24, .length = 8,
          .scheme = scheme, .seed = 5};
}

// Runs f and gives the message of the std::invalid_argument it throws.
template <class F>
std::string refusal(F&& f) {
  try {
    f();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return "";
}

void expect_words(const std::string& message, std::initializer_list<const char*> words) {
  for (const char* word : words) {
    EXPECT_NE(message.find(word), std::string::npos) << "no \"" << word << "\" in: " << message;
  }
}

TEST(ModelConfig, SaysAllThatIsWrongAtOnce) {
  ModelConfig config = small();
  config.vocabulary = 0;
  config.heads = 3;
  config.length = -1;
  expect_words(refusal([&] { config.check(); }),
               {"vocabulary", "got 0", "heads must divide the width", "3 heads", "16", "length",
                "got -1"});
}

TEST(ModelConfig, RefusesWhatTheSchemeRefuses) {
  ModelConfig config = small("no_such_scheme");
  expect_words(refusal([&] { config.check(); }), {"no_such_scheme", "alibi"});
  config = small("rope");
  config.width = 15;
  config.heads = 3;  // head size 5 cannot be turned in pairs
  expect_words(refusal([&] { Model model(config); }), {"5"});
  std::unique_ptr<Scheme> learned = make_scheme("learned");
  learned->fit({8, 0.02});
  config = small(specification(*learned, true));
  config.check();
  config.length = 9;
  expect_words(refusal([&] { config.check(); }), {"8", "9"});
  config.scheme = "learned(rows=8,beyond=repeat)";  // the table says itself what stands behind it
  config.check();
}

TEST(Model, TrunkBeginsTheSameForEveryScheme) {
  const Model plain(small());
  for (const std::string& name : scheme_names()) {
    std::unique_ptr<Scheme> scheme = make_scheme(name);
    scheme->fit({8, 0.02});
    const Model model(small(specification(*scheme, true)));
    for (const ParameterArray& array : plain.arrays()) {
      const auto want = plain.array(array.name), got = model.array(array.name);
      EXPECT_TRUE(std::equal(want.begin(), want.end(), got.begin(), got.end()))
          << name << ": " << array.name;
    }
    EXPECT_EQ(model.position_parameters(), parameter_count(*scheme, small().sizes())) << name;
    EXPECT_EQ(model.parameters() - model.position_parameters(), plain.parameters()) << name;
  }
}

TEST(Model, BeginsAsGpt2) {
  ModelConfig config = small();
  config.width = 64;
  config.feed_forward = 256;
  config.vocabulary = 50;
  const Model model(config);
  const auto deviation = [&](const char* name) {
    double squares = 0;
    for (float x : model.array(name)) squares += double(x) * x;
    return std::sqrt(squares / double(model.array(name).size()));
  };
  // The deviation of n draws is off by 1 / sqrt(2 n) of itself; four times that.
  const auto expect_near = [&](const char* name, double want) {
    const double n = double(model.array(name).size());
    EXPECT_NEAR(deviation(name), want, 4 * want / std::sqrt(2 * n)) << name;
  };
  expect_near("embedding.weight", 0.02);
  expect_near("layers.0.attention.in.weight", 0.02);
  expect_near("layers.1.attention.out.weight", 0.01);  // / sqrt(2 x 2 layers)
  expect_near("layers.0.feed_forward.in.weight", 0.02);
  expect_near("layers.1.feed_forward.out.weight", 0.01);
  for (const char* name : {"norm.gain", "layers.1.attention.norm.gain"}) {
    for (float x : model.array(name)) EXPECT_EQ(x, 1.0f);
  }
  for (const char* name : {"norm.bias", "layers.0.attention.in.bias", "layers.1.feed_forward.out.bias"}) {
    for (float x : model.array(name)) EXPECT_EQ(x, 0.0f);
  }
  const auto first = model.array("layers.0.attention.in.weight");
  const auto second = model.array("layers.1.attention.in.weight");
  EXPECT_FALSE(std::equal(first.begin(), first.end(), second.begin())) << "streams must differ";
}

TEST(Model, SeedDecides) {
  ModelConfig config = small();
  const Model first(config), again(config);
  config.seed = 6;
  const Model other(config);
  const auto a = first.array("embedding.weight"), b = again.array("embedding.weight"),
             c = other.array("embedding.weight");
  EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin()));
  EXPECT_FALSE(std::equal(a.begin(), a.end(), c.begin()));
}

TEST(Model, SaysWhatDecaysAndWhatIsATable) {
  std::unique_ptr<Scheme> scheme = make_scheme("t5");
  scheme->fit({8, 0.02});
  const Model model(small(specification(*scheme, true)));
  int tables = 0;
  for (const ParameterArray& array : model.arrays()) {
    EXPECT_EQ(array.decays, !array.table && array.name.ends_with(".weight")) << array.name;
    EXPECT_EQ(array.table, array.position) << array.name;
    EXPECT_EQ(array.offset % 16, 0) << array.name;
    tables += array.table;
  }
  EXPECT_GE(tables, 1);
  expect_words(refusal([&] { model.array("nothing"); }), {"nothing"});
}

TEST(ModelFile, ComesBackTheSame) {
  TemporaryFolder folder;
  for (const std::string& name : scheme_names()) {
    std::unique_ptr<Scheme> scheme = make_scheme(name);
    scheme->fit({8, 0.02});
    const Model model(small(specification(*scheme)));
    save_model(model, folder.path("model"));
    const Model back = load_model(folder.path("model"));
    EXPECT_EQ(specification(back.scheme(), true), specification(model.scheme(), true));
    EXPECT_EQ(back.config().seed, model.config().seed);
    EXPECT_EQ(back.config().initial_deviation, model.config().initial_deviation);
    EXPECT_EQ(back.config().hidden(), model.config().hidden());
    EXPECT_EQ(back.config().length, model.config().length);
    for (const ParameterArray& array : model.arrays()) {
      const auto want = model.array(array.name), got = back.array(array.name);
      EXPECT_TRUE(std::equal(want.begin(), want.end(), got.begin(), got.end())) << array.name;
    }
    EXPECT_EQ(load_model(folder.path("model"), model.config()).parameters(), model.parameters());
  }
  EXPECT_EQ(folder.files(), 1u) << "nothing temporary is left";
}

TEST(ModelFile, SaysWhichTextsItLearned) {
  TemporaryFolder folder;
  Model model(small("alibi"));
  save_model(model, folder.path("m"));
  EXPECT_EQ(SafetensorsReader(folder.path("m")).metadata().count("texts"), 0u) << "as files of before have it";
  EXPECT_TRUE(load_model(folder.path("m")).config().texts.empty());
  for (const uint64_t text : {0x2142d8695f8a9b7eull, 7ull, 0x2142d8695f8a9b7eull}) model.add_text(text);
  save_model(model, folder.path("m"));
  EXPECT_EQ(SafetensorsReader(folder.path("m")).metadata().at("texts"), "2142d8695f8a9b7e 0000000000000007");
  const Model back = load_model(folder.path("m"));
  EXPECT_EQ(back.config().texts, (std::vector<uint64_t>{0x2142d8695f8a9b7e, 7}));
  EXPECT_EQ(stretched(back, 16, "").config().texts, back.config().texts) << "what goes on remembers them";
}

TEST(ModelFile, AnotherConfigurationIsRefused) {
  TemporaryFolder folder;
  const Model model(small("alibi"));
  save_model(model, folder.path("m"));
  ModelConfig other = small("rope");
  other.width = 32;
  other.length = 9;
  expect_words(refusal([&] { load_model(folder.path("m"), other); }),
               {folder.path("m").c_str(), "width", "expected 32, got 16", "expected 9, got 8", "rope",
                "alibi"});
}

TEST(ModelFile, NumbersThatAreNotFiniteAreNotLoaded) {
  TemporaryFolder folder;
  Model model(small("alibi"));
  const std::string name = model.arrays().front().name;
  model.array(name)[0] = std::numeric_limits<float>::quiet_NaN();
  save_model(model, folder.path("m"));
  try {
    load_model(folder.path("m"));
    FAIL() << "loaded";
  } catch (const std::invalid_argument& problem) {
    EXPECT_NE(std::string(problem.what()).find(name + " holds numbers that are not finite"), std::string::npos)
        << problem.what();
  }
}

TEST(ModelFile, WrongContentIsRefused) {
  TemporaryFolder folder;
  const std::string path = folder.path("m");
  save_model(Model(small("alibi")), path);
  const SafetensorsReader whole(path);

  // The file once more, with one thing changed.
  struct Change {
    const char* what;
    void (*change)(std::map<std::string, std::string>&, std::vector<TensorToWrite>&);
    std::vector<const char*> words;
  };
  const Change changes[] = {
      {"no tensor", [](auto&, auto& t) { t.erase(t.begin()); }, {"embedding.weight", "missing"}},
      {"one more", [](auto&, auto& t) { t.push_back(t[1]), t.back().name = "more"; }, {"more"}},
      {"shape", [](auto&, auto& t) { t[0].shape = {16, 11}; }, {"[11, 16]", "[16, 11]"}},
      {"type", [](auto&, auto& t) { t[0].type = ElementType::kI32; }, {"F32", "I32"}},
      {"width", [](auto& m, auto&) { m["width"] = "32"; }, {"[11, 32]", "[11, 16]"}},
      {"vast", [](auto& m, auto&) { m["vocabulary"] = "99999999999"; }, {"vocabulary"}},
      {"texts", [](auto& m, auto&) { m["texts"] = "2142d8695f8a9b7e 21"; }, {"texts", "16 hexadecimal", "7e 21"}},
      {"no number", [](auto& m, auto&) { m["layers"] = "two"; }, {"layers", "two"}},
      {"no entry", [](auto& m, auto&) { m.erase("heads"); }, {"heads"}},
      {"scheme", [](auto& m, auto&) { m["scheme"] = "what"; }, {"what"}},
      {"other scheme", [](auto& m, auto&) { m["scheme"] = "t5"; }, {"position"}},
      {"format", [](auto& m, auto&) { m["format"] = "other"; }, {"other", "locant model 1"}},
  };
  for (const Change& change : changes) {
    SCOPED_TRACE(change.what);
    auto metadata = whole.metadata();
    std::vector<std::vector<std::byte>> bytes;
    std::vector<TensorToWrite> tensors;
    for (const TensorInfo& info : whole.header().tensors) {
      bytes.emplace_back(static_cast<size_t>(info.end - info.begin));
      whole.read(info, bytes.back());
      tensors.push_back({info.name, info.type, info.shape, bytes.back()});
    }
    change.change(metadata, tensors);
    write_safetensors(folder.path("changed"), metadata, tensors);
    const std::string message = refusal([&] { load_model(folder.path("changed")); });
    expect_words(message, {folder.path("changed").c_str()});
    for (const char* word : change.words) expect_words(message, {word});
  }
  EXPECT_THROW(load_model(folder.path("nowhere")), std::runtime_error);
}

}  // namespace
}  // namespace locant
