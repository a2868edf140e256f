// What writing and reading a part share. Only for this room.
#pragma once

#include <cstdint>
#include <string>

#include "ravnest/checkpoint/part_file.h"

namespace ravnest::checkpoint {

inline constexpr const char* kPartKey = "ravnest.part";
inline constexpr const char* kPartOrderKey = "ravnest.order";
inline constexpr const char* kPartAliasesKey = "ravnest.aliases";
inline constexpr const char* kParametersKey = "ravnest.parameters";
inline constexpr const char* kTensorsKey = "ravnest.tensors";
inline constexpr const char* kOptimizerKey = "ravnest.optimizer";
inline constexpr const char* kPiecesKey = "ravnest.pieces";
inline constexpr const char* kRecordsKey = "ravnest.records";

inline constexpr const char* kBufferKind = "buffer";
inline constexpr const char* kOptimizerKind = "optimizer";
inline constexpr const char* kRecordKind = "record";

// Whether the part can be: kInvalid with what contradicts what.
Status check_part(const Part& part);

// For a file of a later version than kFormatVersion: both, and what to do.
std::string other_version(std::int64_t version);

}  // namespace ravnest::checkpoint
