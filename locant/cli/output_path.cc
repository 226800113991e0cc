#include "locant/cli/output_path.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "locant/base/check.h"
#include "locant/checkpoint/atomic_file.h"

namespace locant::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRecords = kComparisonFiles[0];

// Absolute first: of a relative path that is missing the rest would stay as it is. Empty where it cannot be told.
fs::path whole_path(const fs::path& path) {
  std::error_code error;
  return fs::weakly_canonical(fs::absolute(path, error), error);
}

// What a comparison needs to go on, and the models of its records.
bool belongs_to_comparison(const fs::path& file) {
  std::error_code error;
  const fs::path whole = whole_path(file), folder = whole.parent_path();
  const auto is_comparison = [&](const fs::path& at) {
    return fs::exists(at / "asked.json", error) || fs::exists(at / kRecords, error);
  };
  for (const char* name : kComparisonFiles) {
    if (whole.filename() == name && is_comparison(folder)) return true;
  }
  if (whole.filename().string().starts_with("unfinished-") && is_comparison(folder)) return true;  // set aside
  return folder.filename() == "models" && fs::exists(whole, error) && is_comparison(folder.parent_path());
}

bool same_file(const fs::path& a, const fs::path& b) {
  std::error_code error;
  if (fs::equivalent(a, b, error)) return true;  // also through links; an error where one is missing
  const fs::path one = whole_path(a), other = whole_path(b);
  return !one.empty() && one == other;
}

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

bool lies_inside(const fs::path& path, const fs::path& folder) {
  const fs::path inner = whole_path(path), outer = whole_path(folder);
  if (inner.empty() || outer.empty()) return false;
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

// One output and its messages.
class Output {
 public:
  Output(const std::string& command, const NamedPath& output) : command_(command), output_(output) {}

  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail(command_, output_.option, output_.path.empty() ? " \"\"" : " " + output_.path, parts...);
  }
  const std::string& path() const { return output_.path; }

  // The temporary file beside it, which takes its place when it is whole, is written too.
  void check_apart(const NamedPath& input) const {
    for (const std::string& written : {path(), path() + ".tmp"}) {
      if (same_file(written, input.path)) {
        refuse(" would be written over ", input.option, " ", input.path, ", which is read; expected another file");
      }
    }
    if (is_folder(input.path) && lies_inside(path(), input.path)) {
      refuse(" lies inside ", input.option, " ", input.path, ", which is read; expected a file outside of it");
    }
  }

  void check_place() const {
    const fs::path file(path()), folder = folder_of(file);
    if (is_folder(file) || !file.has_filename()) refuse(" is a folder; expected the name of a file to write");
    if (file.filename() == kRecords || (is_there(file) && fs::canonical(file).filename() == kRecords)) {
      refuse(": a ", kRecords, " holds the results of a comparison and is written by `locant compare` alone; "
             "expected another name");
    }
    if (belongs_to_comparison(file)) refuse(" belongs to the comparison in its folder; expected another name");
    if (!is_there(folder)) refuse(": there is no folder ", folder.string(), "; make it first");
    if (!is_folder(folder)) refuse(": ", folder.string(), " is not a folder; expected one that can be written");
    try {
      // Permissions do not tell (a read-only disk, a user who may do everything): its temporary file is made.
      AtomicFile probe{path()};
    } catch (const FileError& error) {
      refuse(" cannot be written: ", std::strerror(error.error_number()), "; expected a file in a folder that can be written");
    } catch (const std::invalid_argument&) {
      refuse(" is a device, pipe or socket; expected a regular file or none");
    }
  }

 private:
  const std::string& command_;
  const NamedPath& output_;
};

}  // namespace

std::vector<NamedPath> paths_of(const CLI::App& command, const std::vector<std::string>& options) {
  std::vector<NamedPath> paths;
  for (const std::string& name : options) {
    const CLI::Option* option = command.get_option(name);
    if (option->count()) {
      paths.push_back({name, option->as<std::string>()});
    } else if (!option->get_default_str().empty()) {
      paths.push_back({name, option->get_default_str()});
    }
  }
  return paths;
}

void check_outputs(const std::string& command, const std::vector<NamedPath>& outputs,
                   const std::vector<NamedPath>& inputs) {
  for (size_t n = 0; n < outputs.size(); ++n) {
    const Output output(command, outputs[n]);
    if (output.path().empty()) output.refuse(" is empty; expected the name of a file to write");
    for (const NamedPath& input : inputs) output.check_apart(input);
    output.check_place();
    for (size_t before = 0; before < n; ++before) {
      if (!same_file(output.path(), outputs[before].path)) continue;
      output.refuse(" is what ", outputs[before].option, " writes too; expected another file");
    }
  }
}

void check_output_folder(const std::string& command, const NamedPath& folder, const std::vector<NamedPath>& inputs) {
  const Output output(command, folder);
  if (output.path().empty()) output.refuse(" is empty; expected the name of a folder");
  fs::path there = folder.path;
  while (!is_there(there)) {
    const fs::path above = folder_of(there);
    if (above == there) break;
    there = above;
  }
  if (!is_folder(there)) {
    output.refuse(there == fs::path(folder.path) ? "" : ": " + there.string(),
                  " is not a folder; expected one to write into, or none yet");
  }
  std::string probe = (there / ".locant-XXXXXX").string();
  const int descriptor = mkstemp(probe.data());
  if (descriptor < 0) {
    const std::string reason = std::strerror(errno);
    output.refuse(" cannot be written: ", reason, there == fs::path(folder.path) ? "" : " (in " + there.string() + ")",
                  "; expected a folder that can be written");
  }
  close(descriptor);
  unlink(probe.c_str());
  std::vector<std::string> files(std::begin(kComparisonFiles), std::end(kComparisonFiles));
  files.push_back("report.html");
  for (const std::string& file : files) {
    const std::string written = folder.path + "/" + file;
    for (const NamedPath& input : inputs) {
      if (!same_file(written, input.path)) continue;
      output.refuse(": ", input.option, " ", input.path, " is a file that is written there; expected another folder");
    }
  }
}

}  // namespace locant::cli
