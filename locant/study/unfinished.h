// Trainings of a comparison that were stopped in their middle, in its folder: the last one in unfinished.safetensors,
// each that a later request went past in a file of its own name beside it.
#pragma once

#include <string>

#include "locant/study/record.h"

namespace locant::study {

std::string unfinished_path(const std::string& out);
// Where the training of this record waits while another one is at work.
std::string set_aside_path(const std::string& out, const Record& record);

// What the record of the training kept in a file holds so far; an empty one for a training that is no comparison's.
// Throws std::invalid_argument for a damaged file.
Record kept_record(const std::string& path);

// The same for a file that may be missing or damaged: an empty record then.
Record holder(const std::string& path);

// unfinished_path for the training of `record`: its own file is put back there; another one's is set aside.
void make_room(const std::string& out, const Record& record);
// Its records are written: nothing of it is kept any longer. Others stay.
void forget_unfinished(const std::string& out, const Record& record);

}  // namespace locant::study
