#include "locant/study/unfinished.h"

#include <filesystem>
#include <stdexcept>

#include "locant/checkpoint/safetensors.h"
#include "locant/study/comparison.h"

namespace locant::study {

namespace fs = std::filesystem;

std::string unfinished_path(const std::string& out) { return out + "/unfinished.safetensors"; }

std::string set_aside_path(const std::string& out, const Record& record) {
  return out + "/unfinished-" + fs::path(model_path(out, record)).filename().string();
}

Record kept_record(const std::string& path) {
  const SafetensorsReader file(path);
  const auto note = file.metadata().find("note");
  if (note == file.metadata().end()) return {};
  return record_from_json(note->second.substr(note->second.find('\n') + 1), path);
}

Record holder(const std::string& path) {
  try {
    return fs::exists(path) ? kept_record(path) : Record();
  } catch (const std::invalid_argument&) {
    return {};
  }
}

void make_room(const std::string& out, const Record& record) {
  const std::string path = unfinished_path(out), own = set_aside_path(out, record);
  std::error_code error;  // a file that cannot be moved stays: its training begins again
  const Record other = holder(path);
  if (!other.scheme.empty() && other.key() != record.key()) fs::rename(path, set_aside_path(out, other), error);
  if (fs::exists(own) && other.key() != record.key()) fs::rename(own, path, error);
}

void forget_unfinished(const std::string& out, const Record& record) {
  std::error_code error;
  fs::remove(set_aside_path(out, record), error);
  if (holder(unfinished_path(out)).key() == record.key()) fs::remove(unfinished_path(out), error);
}

}  // namespace locant::study
