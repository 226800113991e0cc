// Reads the sources line by line; the table below is design and test in one.
#include "tests/layout/layout.h"

#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>

namespace locant::layout {
namespace fs = std::filesystem;

namespace {

// Dependencies point one way. A folder may include itself and what stands here.
const std::map<std::string, std::set<std::string>> kMayInclude = {
    {"base", {}},
    {"simd", {"base"}},
    {"position", {"base"}},
    {"attention", {"base", "simd", "position"}},
    {"checkpoint", {"base", "position"}},
    {"train", {"base", "simd", "position", "attention", "checkpoint"}},
    {"data", {"base"}},
    {"study", {"base", "simd", "position", "attention", "checkpoint", "train", "data"}},
    {"measure", {"base", "simd", "position", "attention"}},
    {"cli",
     {"base", "simd", "position", "attention", "checkpoint", "train", "data", "study", "measure"}},
};

// The core: the C++ standard library only.
const std::set<std::string> kCore = {"base", "simd", "position", "attention"};

// What only simd/ may include.
const std::set<std::string> kInstructionSets = {"immintrin.h", "x86intrin.h", "arm_neon.h",
                                                "cpuid.h",     "sys/auxv.h",  "asm/hwcap.h"};

bool is_source(const fs::path& path) {
  const std::string extension = path.extension().string();
  return extension == ".h" || extension == ".cc" || extension == ".cpp" || extension == ".inc";
}

bool is_skipped_folder(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.rfind("build", 0) == 0 || name == ".git" || name == "__pycache__" || name == ".cache";
}

std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  if (!fs::exists(folder)) return files;
  for (auto it = fs::recursive_directory_iterator(folder); it != fs::end(it); ++it) {
    if (it->is_directory() && is_skipped_folder(it->path())) {
      it.disable_recursion_pending();
    } else if (it->is_regular_file() && it->path().filename() != ".git") {  // a linked work tree's
      files.push_back(it->path());
    }
  }
  return files;
}

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Calls visit(line number, line) for every line of a text.
template <class Visit>
void each_line(const std::string& text, Visit visit) {
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) visit(number, line);
}

// Why `folder` may not have this include; empty if it may. `open` is '<' or '"'.
std::string objection(const std::string& folder, char open, const std::string& included) {
  const bool in_core = kCore.count(folder) > 0;
  if (kInstructionSets.count(included) > 0) {
    return folder == "simd" ? "" : "instruction sets are known in simd/ only";
  }
  if (included.rfind("locant/", 0) == 0) {
    const std::string rest = included.substr(7);
    const std::string target = rest.substr(0, rest.find('/'));
    if (target == folder || kMayInclude.at(folder).count(target) > 0) return "";
    return folder + "/ may not depend on " + target + "/";
  }
  if (open == '"') return "includes in quotes start with locant/";
  // Headers of the C++ standard library have neither dot nor slash.
  if (in_core && included.find_first_of("./") != std::string::npos) {
    return "the core includes the C++ standard library only";
  }
  return "";
}

std::string complaint(const fs::path& root, const fs::path& file, int line, const std::string& why) {
  return fs::relative(file, root).string() + ":" + std::to_string(line) + ": " + why;
}

}  // namespace

std::vector<std::string> complaints_about_includes(const fs::path& root) {
  static const std::regex kInclude(R"re(^\s*#\s*include\s*([<"])([^>"]+)[>"])re");
  std::vector<std::string> found;
  const auto check_folder = [&](const fs::path& folder, auto why_not) {
    for (const fs::path& file : files_below(folder)) {
      if (!is_source(file)) continue;
      each_line(content_of(file), [&](int number, const std::string& line) {
        std::smatch match;
        if (!std::regex_search(line, match, kInclude)) return;
        const std::string why = why_not(match.str(1)[0], match.str(2));
        if (!why.empty()) found.push_back(complaint(root, file, number, match.str(2) + ": " + why));
      });
    }
  };
  for (const auto& entry : fs::directory_iterator(root / "locant")) {
    if (!entry.is_directory()) continue;
    const std::string folder = entry.path().filename().string();
    if (kMayInclude.count(folder) == 0) {
      found.push_back("locant/" + folder + ": a folder the layout test has no rule for");
      continue;
    }
    check_folder(entry.path(), [&](char open, const std::string& included) {
      return objection(folder, open, included);
    });
  }
  // The oracle is a third witness: written from i and j, it must not borrow from the schemes.
  check_folder(root / "tests" / "oracle", [](char, const std::string& included) -> std::string {
    return included.rfind("locant/position/", 0) == 0 ? "the oracle includes nothing of position/" : "";
  });
  return found;
}

std::vector<std::string> complaints_about_instruction_set_code(const fs::path& root) {
  static const std::regex kInclude(R"re(^\s*#\s*include\s*([<"])([^>"]+)[>"])re");
  static const std::regex kLibrary(
      R"re(\bstd::(?!(conditional_t|enable_if_t|is_same_v|remove_[a-z]+_t|size_t|u?int[0-9]+_t)\b))re");
  static const std::regex kCompilersBf16(R"re(\b(__bf16|bfloat16\w*|v(create|dup|get|ld1|mov|set)\w*_bf16)\b)re");
  static const std::set<std::string> kHeaders = {"cstddef", "cstdint", "cstring", "type_traits",
                                                 "immintrin.h", "arm_neon.h"};
  std::vector<std::string> found;
  std::set<fs::path> seen;
  std::vector<fs::path> waiting;
  for (const fs::path& file : files_below(root / "locant")) {
    const std::string name = file.filename().string();
    if (name.size() > 6 && name.rfind("-inl.h") == name.size() - 6) waiting.push_back(file);
  }
  while (!waiting.empty()) {
    const fs::path file = waiting.back();
    waiting.pop_back();
    if (!seen.insert(file).second) continue;
    each_line(content_of(file), [&](int number, const std::string& line) {
      const std::string code = line.substr(0, line.find("//"));
      std::smatch match;
      if (std::regex_search(code, match, kInclude)) {
        const std::string included = match.str(2);
        if (match.str(1) == "\"" && fs::exists(root / included)) waiting.push_back(root / included);
        if (match.str(1) == "<" && kHeaders.count(included) == 0) {
          found.push_back(complaint(root, file, number, included + ": in code compiled for one set"));
        }
      } else if (code.find("std::") != std::string::npos && std::regex_search(code, kLibrary)) {
        found.push_back(complaint(root, file, number, "std:: in code compiled for one set"));
      } else if (code.find("bf") != std::string::npos && std::regex_search(code, kCompilersBf16)) {
        found.push_back(complaint(root, file, number, "the compiler's bf16"));
      }
    });
  }
  return found;
}

std::vector<std::string> complaints_about_words(const fs::path& root) {
  // Brackets keep these patterns from finding themselves.
  static const std::regex kMachinePath(R"((^|[^A-Za-z0-9_.}/-])/(h[o]me|r[o]ot|U[s]ers|w[o]rk|f[a]rm)/)");
  static const std::regex kMerge(R"(^(<[<]<<<<<|>[>]>>>>>)( |$))");
  std::vector<std::string> found;
  for (const fs::path& file : files_below(root)) {
    const std::string text = content_of(file);
    if (text.find('\0') != std::string::npos) continue;
    // A cheap look first: std::regex on every line of a large file is slow.
    each_line(text, [&](int number, const std::string& line) {
      if (line.find('/') != std::string::npos && std::regex_search(line, kMachinePath)) {
        found.push_back(complaint(root, file, number, "a path of somebody's machine"));
      }
      if ((line[0] == '<' || line[0] == '>') && std::regex_search(line, kMerge)) {
        found.push_back(complaint(root, file, number, "left over from a merge"));
      }
    });
  }
  return found;
}

}  // namespace locant::layout
