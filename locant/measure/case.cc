#include "locant/measure/case.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "locant/base/check.h"
#include "locant/position/registry.h"
#include "locant/simd/dispatch.h"

namespace locant::measure {
namespace {

constexpr std::string_view kWhere = "bench";
constexpr int64_t kLongest = int64_t{1} << 31;  // positions are below this

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  int open = 0;
  for (char c : text) {
    open += (c == '(') - (c == ')');
    const bool space = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (!space) {
      word += c;
    } else if (open <= 0 && !word.empty()) {  // spaces inside a scheme's options are ignored
      words.push_back(std::move(word));
      word.clear();
    }
  }
  if (!word.empty()) words.push_back(word);
  return words;
}

template <class Number>
bool read_number(std::string_view text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// A real as short as it reads back.
std::string real_text(double value) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

class Parser {
 public:
  Parser(Case start, std::string_view text) : case_(std::move(start)), text_(text) {}

  // `fresh`: sizes left out follow the others (g from h, k from q, v from d).
  Case parse(bool fresh) {
    const bool g_followed = case_.g == case_.h, k_followed = case_.k == case_.q, v_followed = case_.v == case_.d;
    for (const std::string& word : split_words(text_)) read(word);
    if (!seen_.count("g") && (fresh || g_followed)) case_.g = case_.h;
    if (!seen_.count("k") && (fresh || k_followed)) case_.k = case_.q;
    if (!seen_.count("v") && (fresh || v_followed)) case_.v = case_.d;
    if (case_.decode && fresh && !seen_.count("q")) {
      if (!seen_.count("k")) case_.k = case_.q;
      case_.q = 1;
    }
    if (case_.decode && (case_.backward || case_.dropout > 0 || case_.packed || case_.hook)) {
      wrong("decode is a forward pass without dropout, packed sequences and hooks");
    }
    if (case_.decode && case_.q > case_.k) wrong("decode needs a cache of at least its own queries, k", case_.k);
    if (case_.pages && !case_.decode) wrong("pages= is of a cache, so of decode only");
    if (case_.h % case_.g != 0) wrong("g", case_.g, " key heads do not divide h", case_.h);
    ask_scheme();
    return case_;
  }

 private:
  void read(const std::string& word) {
    if (!read_scheme(word) && !read_word(word) && !read_option(word) && !read_size(word)) {
      std::string schemes;
      for (const std::string& name : scheme_names()) schemes += " " + name;
      wrong("\"", word, "\" is no size (b h g q k d v t and a number), no option (causal, packed, hook, decode, ",
            "pages=, window=, softcap=, dropout=, threads=, isa=), number type (f32, bf16), direction (fwd, bwd, fwd+bwd) or scheme (one of", schemes, ")");
    }
  }

  bool read_scheme(const std::string& word) {
    const std::string name = word.substr(0, word.find('('));
    const std::vector<std::string> names = scheme_names();
    if (std::find(names.begin(), names.end(), name) == names.end()) return false;
    once("a scheme");
    case_.scheme = specification(*make_scheme(word));
    return true;
  }

  // What the scheme refuses of the call is known before anything runs.
  void ask_scheme() const {
    Call call;
    call.sizes = {.layers = 1, .heads = case_.h, .head_size = case_.d, .width = case_.h * case_.d,
                  .value_size = case_.v};
    call.causal = case_.causal;
    const int64_t start = std::max<int64_t>(0, case_.k - case_.q);
    call.first_distance = -(start + case_.q - 1);
    call.last_distance = case_.causal ? std::min<int64_t>(0, case_.k - 1 - start) : case_.k - 1 - start;
    if (case_.window) call.first_distance = std::max(call.first_distance, 1 - case_.window);
    call.length = std::max(case_.k, case_.q);
    try {
      make_scheme(case_.scheme)->check(call);
    } catch (const std::invalid_argument& error) {
      wrong(error.what());
    }
  }

  bool read_word(const std::string& word) {
    if (word == "causal") {
      once("causal");
      case_.causal = true;
    } else if (word == "packed" || word == "hook" || word == "decode") {
      once(word);
      (word == "packed" ? case_.packed : word == "hook" ? case_.hook : case_.decode) = true;
    } else if (word == "f32" || word == "bf16") {
      once("the number type");
      case_.bf16 = word == "bf16";
    } else if (word == "fwd" || word == "bwd" || word == "fwd+bwd") {
      once("the direction");
      case_.forward = word != "bwd";
      case_.backward = word != "fwd";
    } else {
      return false;
    }
    return true;
  }

  bool read_option(const std::string& word) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) return false;
    const std::string name = word.substr(0, equals), value = word.substr(equals + 1);
    if (name == "window") {
      once(name);
      case_.window = integer(word, value, 1, kLongest);
      case_.causal = true;
    } else if (name == "pages") {
      once(name);
      case_.pages = integer(word, value, 1, 65536);
    } else if (name == "softcap") {
      once(name);
      case_.softcap = real(word, value, 1e-3, 1e6);
    } else if (name == "dropout") {
      once(name);
      case_.dropout = real(word, value, 0, 0.999);
    } else if (name == "threads") {
      once("t");
      case_.threads = static_cast<int>(integer(word, value, 1, 1024));
    } else if (name == "isa") {
      once(name);
      case_.isa = value;
      read_isa(word);
    } else {
      return false;
    }
    return true;
  }

  void read_isa(const std::string& word) {
    std::string names;
    for (simd::Set set : simd::all()) {
      if (simd::name(set) == case_.isa) return;
      names += " " + std::string(simd::name(set));
    }
    wrong("\"", word, "\" is no instruction set; there are:", names);
  }

  bool read_size(const std::string& word) {
    const struct {
      char letter;
      int64_t* value;
      int64_t high;
    } sizes[] = {{'b', &case_.b, kLongest}, {'h', &case_.h, 65536}, {'g', &case_.g, 65536},
                 {'q', &case_.q, kLongest}, {'k', &case_.k, kLongest}, {'d', &case_.d, 65536},
                 {'v', &case_.v, 65536}};
    if (word.size() < 2 || word.find_first_not_of("-0123456789", 1) != std::string::npos) return false;
    const std::string name(1, word[0]), number = word.substr(1);
    if (name == "t") {
      once(name);
      case_.threads = static_cast<int>(integer(word, number, 1, 1024));
      return true;
    }
    for (const auto& size : sizes) {
      if (size.letter != word[0]) continue;
      once(name);
      *size.value = integer(word, number, 1, size.high);
      return true;
    }
    return false;
  }

  int64_t integer(const std::string& word, std::string_view text, int64_t low, int64_t high) const {
    int64_t value = 0;
    if (!read_number(text, value) || value < low || value > high) {
      wrong("\"", word, "\" must be an integer from ", low, " to ", high);
    }
    return value;
  }
  double real(const std::string& word, std::string_view text, double low, double high) const {
    double value = 0;
    if (!read_number(text, value) || !(value >= low && value <= high)) {
      wrong("\"", word, "\" must be a number from ", low, " to ", high);
    }
    return value;
  }

  void once(const std::string& what) {
    if (!seen_.insert(what).second) wrong(what, " is given twice");
  }
  template <class... Parts>
  [[noreturn]] void wrong(const Parts&... parts) const {
    fail(kWhere, "case \"", text_, "\": ", parts...);
  }

  Case case_;
  std::string_view text_;
  std::set<std::string> seen_;
};

}  // namespace

double Case::flops() const {
  double pairs = double(q) * double(k);
  if (window) {  // query i stands at k - q + i (from 0 when there are more queries)
    pairs = 0;
    for (int64_t i = 0; i < q; ++i) {
      const int64_t position = std::max<int64_t>(0, k - q) + i;
      pairs += double(std::max<int64_t>(0, std::min(position + 1, k) - std::max<int64_t>(0, position + 1 - window)));
    }
  } else if (causal && !decode) {
    pairs /= 2;
  }
  return 2 * double(b) * double(h) * pairs * double(d + v) * ((forward ? 1.0 : 0.0) + (backward ? 2.5 : 0.0));
}

double Case::bytes() const {
  const int64_t keys = window ? std::min(k, window + q - 1) : k;
  return double(b) * double(g) * double(keys) * double(d + v) * (bf16 ? 2 : 4);
}

std::string Case::text() const {
  std::ostringstream out;
  out << 'b' << b << " h" << h;
  if (g != h) out << " g" << g;
  out << " q" << q << " k" << k << " d" << d;
  if (v != d) out << " v" << v;
  if (window) {
    out << " window=" << window;
  } else if (causal) {
    out << " causal";
  }
  if (packed) out << " packed";
  if (decode) out << " decode";
  if (pages) out << " pages=" << pages;
  if (softcap > 0) out << " softcap=" << real_text(softcap);
  if (dropout > 0) out << " dropout=" << real_text(dropout);
  if (scheme != "nope") out << ' ' << scheme;
  if (hook) out << " hook";
  out << (bf16 ? " bf16 " : " f32 ") << (!backward ? "fwd" : forward ? "fwd+bwd" : "bwd");
  if (!isa.empty()) out << " isa=" << isa;
  if (threads == 5) {
    out << " threads=5";
  } else {
    out << " t" << threads;
  }
  return out.str();
}

Case Case::plain() const {
  Case c = *this;
  c.scheme = "nope";
  c.hook = false;
  c.softcap = c.dropout = 0;
  return c;
}

bool Case::is_plain() const { return text() == plain().text(); }

bool Case::runs_here() const {
  if (isa.empty()) return true;
  for (simd::Set set : simd::available()) {
    if (simd::name(set) == isa) return true;
  }
  return false;
}

Case parse_case(std::string_view text) {
  if (split_words(text).empty()) fail(kWhere, "an empty case; an example: \"b1 h8 q2048 d64 causal t5 fwd+bwd\"");
  return Parser({}, text).parse(true);
}

Case changed(const Case& c, std::string_view words) { return Parser(c, words).parse(false); }

}  // namespace locant::measure
